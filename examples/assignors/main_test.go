package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor/assignortest"
	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhoGetsAndKeepsWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		require.NoError(t, run(t.Context(), &b))
		scenes := strings.Split(b.String(), "\n\n")
		require.Len(t, scenes, 7)
		byName := map[string]string{}
		for _, s := range scenes[1:6] {
			name, rest, _ := strings.Cut(s, "\n")
			byName[name] = rest
			require.Equal(t, 2, strings.Count(rest, "(group leader)"), "one at a time:\n%s", s)
		}
		require.Regexp(t, `(?m)^    ann   clicks-0 clicks-1 clicks-2 orders-0`, byName["range"], "contiguous, topic by topic")
		for _, sticky := range []string{"sticky", "cooperative-sticky"} {
			require.Regexp(t, `keep (6 of the 6|7 of the 7) partitions`, byName[sticky], sticky)
		}
		require.NotRegexp(t, `keep (6 of the 6|7 of the 7) partitions`, byName["roundrobin"], "dealt anew")
		require.Regexp(t, `(?m)^    \w+ +orders-0 orders-1 orders-2( |$)`, byName["dedicated"])

		require.Regexp(t, `partition \d+ of __consumer_offsets; broker 1 leads it and is the coordinator`, scenes[6])
		require.Regexp(t, `stable:\n  offset \d+: generation 0, no members\n`, scenes[6])
		require.Regexp(t, `offset \d+: generation \d+, protocol "cooperative-sticky", 2 member\(s\), leader (ann|bob)\nNow: generation \d+, Stable, .* leader (ann|bob)\n$`, scenes[6])
	})
}

func TestOurAssignorKeepsTheRules(t *testing.T) {
	assignortest.Run(t, dedicated{}, 1)
}
