package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhatGoesAndWhy(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	for _, fact := range []string{
		"[96, 100)   4080  active",
		"[32, 48)   goes   53040 bytes are left without it, 40960 are to be kept\n  [48, 64)   stays",
		"the log is [48, 100) now",
		"the log is [32, 100) now",
		"the log starts at 25 at once",
		"offset. 31 records in", "became 3 in",
		"30  Bounty   (tombstone)",
		"tombstone. 4 records in", "became 2 in",
	} {
		require.Contains(t, out.String(), fact)
	}
	require.NotContains(t, out.String()[strings.Index(out.String(), "A later compaction"):], "Bounty")
}

func TestSmallerSegmentsExpireFiner(t *testing.T) {
	var out strings.Builder
	require.NoError(t, fineness(t.Context(), t.TempDir(), &out))
	var left []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[2:] {
		left = append(left, strings.Fields(line)[3])
	}
	require.Equal(t, []string{"52", "56", "72", "200"}, left)
}
