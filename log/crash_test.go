package log_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/log/internal/explore"
)

// Environment of tests that check more states than by default.
const (
	exploreEnv = "STRATA_EXPLORE"      // set: everything
	seedEnv    = "STRATA_EXPLORE_SEED" // first seed; default 1
)

// thorough reports whether tests check all of their cases.
func thorough() bool { return os.Getenv(exploreEnv) != "" || sample.Whole() }

func envInt(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, name)
	return n
}

// everyday has the operations of most logs.
const everyday = `
	append 0 n=3
	burst 0 n=4
	sync 0
	epoch 0
	append 0 n=2
	roll 0
	burst 0 n=5
	sleep ms=700
	truncate 0 n=3
	append 0 n=4
	clean 0
	sleep ms=700
	delete 0 part=30
	burst 0 n=3
	append 0 n=1
	reopen 0
	append 0 n=2
	restart 0 n=2
	append 0 n=3
	burst 0 n=3`

// TestCrashAtEveryCall stops a log at each of its calls of the file system, in all ways a process
// or the power can fail. It stops the recovery at its calls, too. A read-only open sees the same
// records as the recovered log.
func TestCrashAtEveryCall(t *testing.T) {
	for _, policy := range []string{"ack", "interval", "never"} {
		t.Run(policy, func(t *testing.T) {
			s, err := explore.Parse(fmt.Sprintf("world logs=1 sync=%s cleanup=delete segment=3000 retention=12000\n%s", policy, everyday))
			require.NoError(t, err)
			o := explore.Options{Every: 1, Kinds: log.Sampled(4, 1), Again: 40, Seed: uint64(envInt(t, seedEnv, 1))}
			if os.Getenv(exploreEnv) != "" {
				o.Kinds, o.Again = len(explore.Crashes), 10
			}
			rep, v := exploreScript(t, s, o)
			require.NoError(t, asError(v))
			require.Greater(t, rep.States, log.Sampled(500, 100))
			t.Log(rep)
		})
	}
}

// TestExplorerFindsLoss is the counterpart of TestCrashAtEveryCall: with a disk that drops syncs
// or writes, the explorer has to report a violation.
func TestExplorerFindsLoss(t *testing.T) {
	for name, lie := range map[string]string{
		"Sync does nothing": "ops=sync file=*.log times=-1",
		// The first one: the number of batches in a burst depends on the scheduler.
		"one Sync does nothing": "ops=sync file=*.log times=1",
		"SyncDir does nothing":  "ops=syncdir times=-1",
		// Zeros ahead and a batch, or two batches.
		"writes are swallowed": "ops=write file=*.log after=7 times=2",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := explore.Parse("world logs=1 sync=ack cleanup=delete segment=3000\nfault err=lie " + lie + everyday)
			require.NoError(t, err)
			_, v := exploreScript(t, s, explore.Options{Every: 1, Kinds: 2, Share: log.AlwaysShare})
			require.Error(t, asError(v))
			t.Log(v)
		})
	}
}
