package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhereConsumersStart(t *testing.T) {
	var b strings.Builder
	require.NoError(t, run(t.Context(), &b))
	out := b.String()
	require.Contains(t, out, "earliest  committed -1, gets 10 records, position 10")
	require.Contains(t, out, "latest    committed -1, gets 0 records, position 11")
	require.Contains(t, out, "then a new record: offset 11")
	require.Contains(t, out, `life 1 reads "order 0" to "order 3", commits 4     ####|........`)
	require.Contains(t, out, `life 2 reads "order 4" to "order 7", commits 8     ....####|....`)
	require.Contains(t, out, `started at 7 it reads "order 7" to "order 8"     .......##|...`)
	require.Contains(t, out, `started at 2 it reads "order 2" to "order 3"     ..##|........`)
	for n := 1; n <= 8; n++ { // one record a commit
		require.Regexp(t, `record \d+: \(billing, orders-0\) -> offset `+string(rune('0'+n)), out)
	}
}
