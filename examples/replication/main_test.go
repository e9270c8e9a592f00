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

func TestProgramShowsALeadersDeathAndASlowFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		for _, fact := range []string{
			`broker 1 killed\n(.*\n)*.*broker 1 fenced\n.*\[1\] left the in-sync set, which is \[2 3\]\n.*broker 2 leads in epoch 1\n`,
			`1 +gone +no +- +- +-   ann bob cid dan\n +2 +leader +yes +4 +4 +0   ann bob cid eve\n`,
			`broker 1 cut its log from 4 to 3\n.*\[1\] joined the in-sync set, which is \[1 2 3\]\n`,
			`0  ann pays 10\n +1  bob pays 20\n +2  cid pays 30\n +3  eve pays 50\n`,
			`\[3\] left the in-sync set, which is \[1 2\]\n  acknowledged after [4-6]\d\d ms`,
			`3 +follower +no +\d +\d +1   ann bob cid eve fay\n    high watermark 6`,
			`\[3\] joined the in-sync set, which is \[1 2 3\]\n(.*\n)+ +3 +follower +yes +6 +6 +0   ann bob cid eve fay gus\n`,
		} {
			require.Regexp(t, regexp.MustCompile(fact), out.String())
		}
		require.NotContains(t, out.String(), "dan pays")
	})
}
