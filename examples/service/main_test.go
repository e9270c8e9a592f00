package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestServiceChargesEachOrderAlsoAfterARestart(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), t.TempDir(), &out))
	for _, want := range []string{"POST /orders shirt: 201 Created", "POST /orders socks: 201 Created", "GET /health: 200 OK", "billing has charged socks"} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, 3, strings.Count(out.String(), "billing has charged"), out.String())
}
