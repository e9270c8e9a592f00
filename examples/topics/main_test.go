package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhyKindsAreNotMixed(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	mixed, own, ok := strings.Cut(out.String(), "One topic each")
	require.True(t, ok)
	require.Regexp(t, `reads \d{4} records and finds \d\d of them`, mixed, "most orders are gone, among thousands of records")
	require.Regexp(t, `reads 200 records and finds 200 of them`, own)
}
