package replication

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

const flushNever = "9223372036854775807"

// Checklist row L4: a partition whose records are not synced is created without a sync. It is
// durable when it is closed, including the file in its directory.
func TestFirstRecordOfAPartitionThatIsNotSyncedWaitsForNoDisk(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "weak", 20, "flush.messages", flushNever)
	awaitFounding(c)
	before := fsys.Count(vfs.OpSync | vfs.OpSyncDir)
	for i := range int32(20) {
		produce(t, c, at("weak", i), "first")
	}
	require.Equal(t, before, fsys.Count(vfs.OpSync|vfs.OpSyncDir))
	killed := open(t, fsys.Kill())
	require.Equal(t, []string{"first"}, values(t, killed, at("weak", 7)))
	require.NoError(t, killed.Close())
	require.NoError(t, c.Close())
	for seed := range uint64(4) {
		again := open(t, fsys.Crash(seed))
		for i := range int32(20) {
			require.Equal(t, []string{"first"}, values(t, again, at("weak", i)))
		}
		require.NoError(t, again.Close())
	}
}

// The system may drop data after a failed sync. Then the next sync succeeds, and the data is not
// durable. This holds for the file that names the topic of a directory as well.
func TestTopicIDWhoseSyncHasFailedIsMadeDurableForReal(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{Dir: "data", FS: fsys})
	require.NoError(t, err)
	create(t, c, "weak", 1, "flush.messages", flushNever)
	produce(t, c, at("weak", 0), "first")
	fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: partitionMetadataFile, Err: errors.New("input/output error")})
	require.Error(t, c.Close())
	c = open(t, fsys)
	produce(t, c, at("weak", 0), "second")
	require.NoError(t, c.Close())
	again := open(t, fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}))
	require.Equal(t, []string{"first", "second"}, values(t, again, at("weak", 0)))
	require.NoError(t, again.Close())
}

// A power cut may remove, without a trace, records that readers have seen and their directory. A
// new leader epoch shows the loss to readers. The epoch is not lost with a process that was about
// to begin it.
func TestEpochOfAPartitionThatWasLostWithoutATraceBegins(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "weak", 2, "flush.messages", flushNever)
	create(t, c, "safe", 1)
	produce(t, c, at("weak", 0), "seen")
	produce(t, c, at("safe", 0), "kept")
	// Without the directory, or with an empty one.
	for _, entries := range []vfs.CrashMode{vfs.CrashLost, vfs.CrashKept} {
		cut := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: entries})
		epochs := func(left *vfs.MemFS, where string) {
			c, err := Open(Config{Dir: "data", FS: left})
			require.NoError(t, err, where)
			require.EqualValues(t, 0, c.Status("safe", 0).LeaderEpoch, where)
			require.EqualValues(t, 1, c.Status("weak", 0).LeaderEpoch, where)
			require.EqualValues(t, 1, produce(t, c, at("weak", 0), "new").LeaderEpoch, where)
			require.NoError(t, c.Close(), where)
		}
		var mu sync.Mutex // guards the variables below while the cluster opens
		var all []*vfs.MemFS
		var where []string
		stop := cut.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op&vfs.OpChange != 0 {
				mu.Lock()
				defer mu.Unlock()
				all, where = append(all, cut.Kill()), append(where, fmt.Sprintf("killed before %v %s", e.Op, filepath.Base(e.Name)))
			}
		}})
		again := open(t, cut)
		stop()
		require.EqualValues(t, 1, again.Status("weak", 0).LeaderEpoch)
		require.NoError(t, again.Close())
		for i, left := range all {
			epochs(left, where[i])
		}
		epochs(cut, "closed in order")
	}
	require.NoError(t, c.Close())
}

// Ids of incarnations differ, and identify the run of the machine.
func TestIncarnationsNameTheRunOfTheMachine(t *testing.T) {
	seen := map[topic.ID]bool{}
	for i := range 200 {
		boot := fmt.Sprint("boot ", i%50)
		id := newIncarnation(boot)
		require.False(t, seen[id])
		seen[id] = true
		require.NotEqual(t, "-", id.String()[:1])
		require.True(t, sameRun([16]byte(id), boot))
		require.False(t, sameRun([16]byte(id), "another"))
		require.False(t, sameRun([16]byte(newIncarnation("")), ""), "runs cannot be told apart")
	}
}
