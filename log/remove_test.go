package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// A closed log may have another owner: Remove of the old handle must not remove it, and must not
// report success.
func TestRemoveOfAClosedLogSaysSoAndRemovesNothing(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openMem(t, disk)
	fill(t, l, 10)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Remove(), ErrClosed)
	l2 := openMem(t, disk)
	require.ErrorIs(t, l.Remove(), ErrClosed)
	fill(t, l2, 10)
	require.Len(t, values(t, l2), 20)

	require.NoError(t, l2.Remove())
	_, err := disk.Stat("log")
	require.ErrorIs(t, err, fs.ErrNotExist)
	l3 := openMem(t, disk)
	fill(t, l3, 1)
	require.NoError(t, l2.Remove(), "again: it was removed")
	require.NoError(t, l2.Close(), "idempotent, as ever")
	require.Len(t, values(t, l3), 1, "the log that has its name now stays")
	require.NoError(t, l3.Close())
}

func TestRemoveAndCloseAtOnceAgree(t *testing.T) {
	t.Parallel()
	outcomes := map[bool]int{}
	for i := range 300 {
		disk := vfs.Mem()
		l := openMem(t, disk)
		fill(t, l, 3)
		var closed, removed error
		var both sync.WaitGroup
		begin := make(chan struct{})
		both.Go(func() { <-begin; closed = l.Close() })
		both.Go(func() { <-begin; removed = l.Remove() })
		close(begin)
		if i%2 == 1 { // either call may win; half of the time a third call takes part
			require.NoError(t, l.Close())
		}
		both.Wait()
		require.NoError(t, closed)
		_, err := disk.Stat("log/" + stateFile)
		if removed == nil {
			require.ErrorIs(t, err, fs.ErrNotExist, "Remove says that it is gone")
		} else {
			require.ErrorIs(t, removed, ErrClosed)
			require.NoError(t, err, "Remove says that it is there")
			again := openMem(t, disk)
			require.Len(t, values(t, again), 3)
			require.NoError(t, again.Close())
		}
		outcomes[removed == nil]++
	}
	t.Logf("removed %d times, closed %d times", outcomes[true], outcomes[false])
}

// Removing a directory takes many calls: the files after a crash must not look like a log, least
// of all like a shorter one.
func TestCrashDuringRemoveLeavesAWholeLogOrNone(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: disk, SegmentBytes: 500}
	l, err := Open("dir/log", cfg)
	require.NoError(t, err)
	fill(t, l, 40)
	require.NoError(t, l.DeleteRecords(7))
	want := values(t, l)
	var mu sync.Mutex // guards the counters below: segments are synced in the background
	states, whole := 0, 0
	check := func(at *vfs.MemFS, what string) {
		states++
		if _, err := at.Stat("dir/log"); errors.Is(err, fs.ErrNotExist) {
			return
		}
		whole++
		again := cfg
		again.FS = at
		o, err := Open("dir/log", again)
		require.NoError(t, err, what)
		require.Equal(t, want, values(t, o), what)
		require.NoError(t, o.Close(), what)
	}
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		check(disk.Kill(), "killed before "+e.String())
		for seed := range uint64(4) {
			check(disk.Crash(seed), fmt.Sprintf("power cut %d before %s", seed, e))
		}
	}})
	require.NoError(t, l.Remove())
	stop()
	require.Greater(t, states, 50)
	require.Greater(t, whole, 5)
	entries, err := disk.ReadDir("dir")
	require.NoError(t, err)
	require.Empty(t, entries)
	for seed := range uint64(20) {
		_, err := disk.Crash(seed).Stat("dir/log")
		require.ErrorIs(t, err, fs.ErrNotExist, "what was removed stays so")
	}
}

// A fault leaves the complete log under its name, or the log is removed for good.
func TestFaultDuringRemoveLeavesAWholeLogOrNone(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		disk := vfs.Mem()
		faulty := vfs.Faulty(disk)
		l, err := Open("dir/log", Config{FS: faulty, SegmentBytes: 500})
		require.NoError(t, err)
		fill(t, l, 40)
		require.NoError(t, l.Sync())
		faulty.Inject(vfs.Fault{Ops: vfs.OpRename | vfs.OpRemove | vfs.OpSyncDir, After: n - 1, Err: syscall.EIO})
		err = l.Remove()
		for seed := range uint64(5) {
			at := disk.Crash(seed)
			if _, statErr := at.Stat("dir/log"); statErr == nil {
				o, err := Open("dir/log", Config{FS: at})
				require.NoError(t, err)
				require.Len(t, values(t, o), 40, "call %d", n)
				require.NoError(t, o.Close())
			}
		}
		if err == nil {
			require.Greater(t, n, 3)
			return
		}
	}
}

func TestRemoveOfALogOpenedByASymbolicLinkRemovesTheLog(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	real, link := filepath.Join(root, "real"), filepath.Join(root, "link")
	require.NoError(t, vfs.OS().MkdirAll(real, 0o755))
	require.NoError(t, os.Symlink(real, link))
	l, err := Open(link, Config{})
	require.NoError(t, err)
	fill(t, l, 3)
	require.NoError(t, l.Remove())
	entries, err := vfs.OS().ReadDir(root)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Empty(t, names, strings.Join(names, " "))
}
