package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(shopDir) != "" {
		main() // the test's own binary is the shop
		return
	}
	leaktest.Main(m)
}

func TestProgramSendsOneEventForEachRow(t *testing.T) {
	var b strings.Builder
	require.NoError(t, run(t.Context(), &b))
	with, without, ok := strings.Cut(b.String(), bothByItself+":\n")
	require.True(t, ok, b.String())
	require.Contains(t, with, "  300 rows, 300 events; 0 rows without an event, 0 events too many\n")
	require.Contains(t, without, "  300 rows, ")
	require.NotContains(t, without, " 0 rows without an event", "it dies between them")
}
