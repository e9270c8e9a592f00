package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsThatReadersDoNotDisturbEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		require.NoError(t, run(t.Context(), &b))
		out := b.String()
		require.Equal(t, records, count(t, out, "fast reader"))
		first, second := count(t, out, "group member a"), count(t, out, "group member b")
		require.Equal(t, records, first+second, "the group has every record once")
		require.Positive(t, min(first, second), "both members have work")
		require.Less(t, count(t, out, "slow reader"), records, "nobody waits for the slow one")
		require.Equal(t, 4, strings.Count(out, "lag:"))
		require.Regexp(t, `(?m)^in the topic   \|={40}\|`, out)
		require.Regexp(t, `(?m)^fast reader    \|={30,40}$`, out)
		require.Regexp(t, `(?m)^slow reader    \|={0,10}$`, out)
	})
}

// count returns the number of records in a reader's line.
func count(t *testing.T, out, name string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` +read +(\d+) records$`).FindStringSubmatch(out)
	require.NotNil(t, m, "%s in\n%s", name, out)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}
