package main

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhoOwnsWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		for _, fact := range []string{
			// Three partitions each.
			`bob joins: .*\n    ann   \w+-\d \w+-\d \w+-\d\n    bob   \w+-\d \w+-\d \w+-\d\n`,
			`all are there: .*\n(    \w+ +(clicks-\d|idle)\n){5}  \w+ leaves: .*\n(    \w+ +clicks-\d\n){4}  3 of the 3 remaining members keep their partition\n\n`,
			`ann is frozen: .*\n    bob   clicks-0 clicks-1 clicks-2 clicks-3\n`,
			`joins again: .*\n    ann   clicks-\d clicks-\d\n    bob   clicks-\d clicks-\d\n`,
			`billing: its two members together saw 1000 different`,
			`shipping: its two members together saw 1000 different`,
			// a static member restarts without a rebalance, others do not; eager members stop for
			// it
			`(?m)^  eager +\d{3} ms +\d{3} ms +[1-9][0-9]*$`,
			`(?m)^  cooperative +\d ms +\d ms +[1-9]\d*$`,
			`(?m)^  static +\d ms +\d ms +0$`,
		} {
			require.Regexp(t, regexp.MustCompile(fact), out.String())
		}
		require.Equal(t, 1, strings.Count(out.String(), "idle\n"))
	})
}
