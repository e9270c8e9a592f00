package replication

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestCrashDuringARestoreNeverOpensAsASmallerCluster(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 2)
	for i := range 5 {
		produce(t, c, at("orders", 0), fmt.Sprint(i))
	}
	require.NoError(t, c.Backup(t.Context(), "saved"))
	var one sync.Mutex // guards the counters: the copied cluster still runs
	states, whole := 0, 0
	check := func(m *vfs.MemFS, what string) {
		states++
		if again, ok := copied(t, m, what); ok {
			whole++
			require.Len(t, values(t, again, at("orders", 0)), 5, what)
			require.NoError(t, again.Close())
		}
	}
	remove := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		one.Lock()
		defer one.Unlock()
		if e.Op&vfs.OpChange != 0 {
			check(fsys.Kill(), "killed before "+e.String())
			for seed := range uint64(3) {
				check(fsys.Crash(seed), fmt.Sprintf("power cut %d before %s", seed, e))
			}
		}
	}})
	require.NoError(t, Restore(t.Context(), fsys, "saved", "copy"))
	remove()
	one.Lock()
	defer one.Unlock()
	require.Greater(t, states, 40)
	before := whole
	for seed := range uint64(20) {
		check(fsys.Crash(seed), fmt.Sprintf("power cut %d afterwards", seed))
	}
	require.Equal(t, before+20, whole)
	require.NoError(t, Restore(t.Context(), fsys, "saved", "again"), "the backup is as it was")
}

func TestRestoreRefusesWhatIsNoClusterOrInUse(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	require.ErrorIs(t, Restore(t.Context(), fsys, "data", "copy"), ErrLocked, "a cluster that is open wants Backup")
	require.NoError(t, c.Backup(t.Context(), "saved"))
	require.ErrorIs(t, Restore(t.Context(), fsys, "nothing", "copy"), ErrForeign)
	require.ErrorIs(t, Restore(t.Context(), fsys, "saved", "data"), fs.ErrExist)
	require.ErrorIs(t, Restore(t.Context(), fsys, "saved", "saved/copy"), fs.ErrInvalid)
	require.ErrorIs(t, Restore(t.Context(), fsys, "saved", ""), fs.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Restore(ctx, fsys, "saved", "copy"), context.Canceled)
	remove := fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: errDisk})
	require.ErrorIs(t, Restore(t.Context(), fsys, "saved", "copy"), errDisk)
	remove()
	entries, err := fsys.ReadDir("copy")
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is left of a restore that failed")
	require.NoError(t, fsys.MkdirAll("half/broker-1", 0o755))
	require.NoError(t, vfs.WriteFile(fsys, "half/broker-1/"+unfinishedFile, nil))
	require.ErrorIs(t, Restore(t.Context(), fsys, "half", "copy"), ErrUnfinished)
}

// A backup has no lock that could be held, and Restore creates nothing in it. Restore notices an
// open of the backup during the copy, and takes the copy back.
func TestRestoreOfABackupThatIsOpenedMeanwhileLeavesNothing(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	require.NoError(t, c.Backup(t.Context(), "saved"))
	var opened *Cluster
	stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpWrite && strings.HasSuffix(e.Name, ".log") && strings.Contains(e.Name, "copy") && opened == nil {
			var err error
			opened, err = Open(Config{FS: fsys, Dir: "saved"})
			require.NoError(t, err)
		}
	}})
	require.ErrorIs(t, Restore(t.Context(), fsys, "saved", "copy"), ErrLocked)
	stop()
	require.NotNil(t, opened)
	entries, err := fsys.ReadDir("copy")
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is left of a restore that failed")
	require.NoError(t, opened.Close())
	require.NoError(t, Restore(t.Context(), fsys, "saved", "copy"))
}

// If the disk fails, it is unknown whether the cluster is open, and Restore refuses.
func TestRestoreOfAnOpenClusterIsRefusedWhileTheDiskFails(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	for _, op := range []vfs.Op{vfs.OpStat, vfs.OpLock} {
		disarm := fsys.Inject(vfs.Fault{Ops: op, Pattern: ".lock", Times: vfs.Always, Err: errDisk})
		err := Restore(t.Context(), fsys, "data", "copy")
		disarm()
		require.ErrorIs(t, err, errDisk)
	}
	require.NoError(t, c.Close())
	require.NoError(t, Restore(t.Context(), fsys, "data", "copy"))
}
