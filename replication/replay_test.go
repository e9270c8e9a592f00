package replication

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Three brokers, real logs, disks and paths that take their time, each operation one of its own;
// brokers die, stop and return, paths are cut, syncs fail. What was acknowledged is there, once and
// in order, replicas are equal, readers see nothing that goes again. One run in four is made
// twice, and has to be the same to the nanosecond, so a seed that fails fails again.
func TestReplicasOnSeededDisks(t *testing.T) {
	first, seeds := seedsOf(t, 32, 200, 2000)
	// What wakes at one instant runs in one order.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var all coverage
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			lines, cover := play(t, seed)
			all.add(cover)
			if seed%8 < 2 || seeds == 1 {
				requireSame(t, seed, lines)
			}
		})
	}
	t.Logf("%d seeds: %+v", seeds, all)
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

// requireSame plays a seed again. The scheduler interrupts what runs for ten milliseconds, on a
// busy machine also what was not running: so three runs may differ before one has to be the same.
func requireSame(t *testing.T, seed uint64, lines []traceLine) {
	runs := [][]traceLine{lines}
	for range 4 {
		again, _ := play(t, seed)
		for _, run := range runs {
			if firstDifference(run, again) == "" {
				return
			}
		}
		runs = append(runs, again)
	}
	require.Empty(t, firstDifference(runs[0], runs[1]), "the seed does not replay")
}

// seedsOf returns the seeds of a run, in its short, usual and long form; STRATA_REPLAY_SEED asks
// for one.
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
