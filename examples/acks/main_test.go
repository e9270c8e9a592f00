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
			{answer, `acks=0 +20 +20 +0 +0`},
			{answer, `acks=1 +20 +20 +0 +1`},
			{answer, `not idempotent +20 +20 +0 +1`},
			{answer, `default\) +20 +20 +0 +0`},
			{leader, `acks=0 +20 +15 +5 +0`},
			{leader, `acks=1 +20 +15 +5 +0`},
			{leader, `not idempotent +20 +20 +0 +0`},
			{leader, `default\) +20 +20 +0 +0`},
		} {
			require.Regexp(t, regexp.MustCompile(fact.row), fact.scene)
		}
	})
}
