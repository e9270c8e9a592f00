package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhatEachDeliveryLosesAndRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		require.NoError(t, run(t.Context(), &b))
		for _, fact := range []string{
			`at most once: .* coordinates +[1-9]\d* +0 +right +#+\.+#+\n`,
			`at most once: .* limits +[1-9]\d* +0 +WRONG +#+\.+#+\n`,
			// Records 500 to 550 were processed and not committed.
			`at least once: .* states +0 +51 +right +#{10}2{6}#{14}\n`,
			`at least once: .* limits +0 +51 +WRONG +#{10}2{6}#{14}\n`,
			`exactly once: .* limits +0 +0 +right +#{30}\n`,
			`no acknowledgement, no retries +20 +0\n`,
			`acknowledged by all, retried +0 +[12]\d\n`,
			`the same, idempotent +0 +0\n`,
		} {
			require.Regexp(t, fact, b.String())
		}
	})
}
