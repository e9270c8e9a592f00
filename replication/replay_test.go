package replication

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Three brokers have real logs. Their disks and paths have delays, different for each operation.
// Brokers die, stop and return, paths are cut, and syncs fail. Acknowledged records are there,
// once and in order, replicas are equal, and records stay once they were read. One run in four is
// repeated, and must be the same to the nanosecond, so that a seed that fails fails again.
func TestReplicasOnSeededDisks(t *testing.T) {
	first, seeds := seedsOf(t, 32, 200, 2000)
	// Goroutines that wake at one instant run in one order.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var all coverage
	var again replayed
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			first := play(t, seed)
			all.add(first.cover)
			if (seed%8 < 2 || seeds == 1) && !raceEnabled { // the detector's scheduler is random
				again.add(requireSame(t, seed, first))
			}
		})
	}
	t.Logf("%d seeds: %+v", seeds, all)
	t.Logf("made again: %+v", again)
	if seeds > 20 {
		require.NotZero(t, all.elections)
		require.NotZero(t, all.duringSync, "brokers killed while they sync")
		require.NotZero(t, all.controllers, "controllers killed inside a change")
		require.NotZero(t, all.divergences)
		require.NotZero(t, all.lost, "appended, not acknowledged, gone")
		require.NotZero(t, all.shrunk)
		require.NotZero(t, all.faults)
		require.NotZero(t, all.fenced, "brokers fenced for being cut off")
		require.NotZero(t, all.fencedEnded, "killed while they were")
	}
}

// replayed counts repeated seeds, the seeds of which two runs could be compared to their end, all
// lines, and the compared lines.
type replayed struct{ seeds, whole, lines, compared int }

func (r *replayed) add(o replayed) {
	r.seeds += o.seeds
	r.whole += o.whole
	r.lines += o.lines
	r.compared += o.compared
}

// requireSame runs a seed again. Undisturbed parts must be the same in all runs. Runs are repeated
// until two were not disturbed at all, or there are five.
func requireSame(t *testing.T, seed uint64, first played) (r replayed) {
	r = replayed{seeds: 1, lines: len(first.lines)}
	runs := []played{first}
	for range 4 {
		again := play(t, seed)
		for _, run := range runs {
			until := min(run.until, again.until)
			a, b := run.before(until), again.before(until)
			require.Empty(t, firstDifference(a, b), "the seed does not replay")
			r.compared = max(r.compared, len(a))
			if until == wholeTrace {
				r.whole = 1
				return r
			}
		}
		runs = append(runs, again)
	}
	return r
}

// seedsOf returns the seeds of a run, in its short, usual and long form. STRATA_REPLAY_SEED
// selects a single seed.
func seedsOf(t *testing.T, short, usual, long uint64) (first, n uint64) {
	if s := os.Getenv("STRATA_REPLAY_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		return seed, 1
	}
	switch {
	case os.Getenv("STRATA_LONG") != "":
		return 0, long
	case testing.Short() || raceEnabled:
		return 0, short
	}
	return 0, usual
}
