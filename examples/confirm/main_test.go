package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/vfs"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhatConfirmationsTellAndCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		disk := vfs.Faulty(vfs.OS()) // only syncs take time in a bubble
		disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: 5 * time.Millisecond})
		require.NoError(t, run(t.Context(), &b, disk))
		out := b.String()

		none := row(t, out, `none +(\d+) us +no offset +nothing`)
		const sync = 5000 // microseconds
		require.GreaterOrEqual(t, row(t, out, `leader +(\d+) us +its offset +an error`), float64(sync), "it waits for the disk")
		all := row(t, out, `all +(\d+) us +its offset +an error`)
		require.GreaterOrEqual(t, all, float64(sync), "it waits for the disk")
		require.Less(t, none, all, "a confirmation costs latency")

		require.Regexp(t, `without idempotence +sent 2 times, in the log 2 times`, out)
		require.Regexp(t, `with idempotence +sent 2 times, in the log 1 times`, out)

		require.InDelta(t, 1, row(t, out, `\n  1 +0s +([\d.]+)`), 0, "batches of one record")
		short, long := row(t, out, ` 5ms +([\d.]+)`), row(t, out, ` 50ms +([\d.]+)`)
		require.Greater(t, short, 2.0)
		require.Greater(t, long, short, "who waits longer meets more")
		require.GreaterOrEqual(t, row(t, out, ` 50ms +[\d.]+ +\d+ us +(\d+) us`), 50_000.0, "and answers later: the first of a batch waits for all of linger")
	})
}

// row returns the number that pattern captures in the matching line.
func row(t *testing.T, out, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	require.NotNil(t, m, "%s in\n%s", pattern, out)
	n, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	return n
}
