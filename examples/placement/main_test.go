package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhoHasWhatBeforeAndAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		parts := strings.Split(out.String(), "101 102 103\n")
		require.Len(t, parts, 5)
		for i, leads := range []string{"3   3   3", "4   0   4", "4   1   4", "3   3   3"} {
			require.Contains(t, parts[i+1], "leads  "+leads)
		}
		require.Equal(t, strings.Fields(parts[1])[:9+9+3+2], strings.Fields(parts[4])[:9+9+3+2], "as it was")
		require.Contains(t, parts[1], "A-1    f   L   f\n")
		require.Contains(t, parts[2], "A-1    f   .   L\n")
		require.Contains(t, parts[2], "C-1        .       no leader\n")
		require.Equal(t, 1, strings.Count(out.String(), "no leader\n"))
		require.Contains(t, parts[3], "A-1    f   f   L\n")
	})
}
