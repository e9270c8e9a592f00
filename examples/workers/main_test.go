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

// run itself fails if a mail is lost by the stop in the middle.
func TestProgramTellsWhyEachMailFailedAndLosesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		require.Equal(t, 2, strings.Count(out.String(), "clean end"))
		for _, fact := range []string{
			`None lost; the second process sent \d+ again`,
			`then it ends:\n  2\d\d mails sent, at most 16 at a time`,
			`mail 13 from mails-\d, offset \d+, after 1 attempts:\n.*no such mailbox\n    mails-\d (?:x )?(?:\| )?x -> mails-failed-\d\n`,
			`mail 77 from mails-\d, offset \d+, after 6 attempts:\n.*handler panicked: .*index out of range.*\n    mails-\d (?:[x ]*\| )?x x x -> mails-retry-\d (?:[x ]*\| )?x x x -> mails-failed-\d\n`,
			`mail 222 from mails-\d, offset \d+, after 6 attempts:\n.*attempt timed out\n    mails-\d (?:[x ]*\| )?x x x -> mails-retry-\d (?:[x ]*\| )?x x x -> mails-failed-\d\n`,
			`mail 100: mails-\d (?:[x ]*\| )?x x sent`,
			`mail 150: mails-\d (?:[x ]*\| )?x x x -> mails-retry-\d (?:\| )?sent`,
		} {
			require.Regexp(t, regexp.MustCompile(fact), out.String())
		}
		require.Equal(t, 3, strings.Count(out.String(), "\n  mail "))
	})
}
