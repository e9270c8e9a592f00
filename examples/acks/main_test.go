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

func TestProgramShowsWhatEachKindOfAcknowledgementIsWorth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		answer, leader, ok := strings.Cut(out.String(), "The leader loses power")
		require.True(t, ok)
		for _, fact := range []struct{ scene, row string }{
			{answer, `acks=0 +20 +20 +0 +0 +#{20}\n`},
			{answer, `acks=1 +20 +20 +0 +1 +####2#{15}\n`},
			{answer, `not idempotent +20 +20 +0 +1 +####2#{15}\n`},
			{answer, `default\) +20 +20 +0 +0 +#{20}\n`},
			{leader, `acks=0 +20 +15 +5 +0 +#{15}x{5}\n`},
			{leader, `acks=1 +20 +15 +5 +0 +#{15}x{5}\n`},
			{leader, `not idempotent +20 +20 +0 +0 +#{20}\n`},
			{leader, `default\) +20 +20 +0 +0 +#{20}\n`},
		} {
			require.Regexp(t, regexp.MustCompile(fact.row), fact.scene)
		}
	})
}
