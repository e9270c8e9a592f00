package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhatSurvives(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "the log ends at 6, balances map[alice:-33 bob:33]")
	require.Regexp(t, `(?s)sync on ack: 3 transfers .*verdict: NONE of them is lost.*sync never: 3 transfers .*verdict: 3 of them are LOST`, out.String())
	require.Contains(t, out.String(), "    acknowledged |ababab|\n    on the disk  |ababab|\n")
	require.Contains(t, out.String(), "    acknowledged |abababababab|\n    on the disk  |ababab      |\n")
	require.Contains(t, out.String(), "follower sees: carol +100\nfollower sees: carol -3\nbackup holds [0, 8), the log [0, 8)\n")
}
