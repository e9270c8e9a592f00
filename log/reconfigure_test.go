package log

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestIndexSizesChangeWithTheNextSegment(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, IndexIntervalBytes: 1 << 20})
	require.NoError(t, err)
	entries := func(base int64) int {
		info, err := disk.Stat(filepath.Join("log", segment.FileName(base, segment.IndexSuffix)))
		require.NoError(t, err)
		return int(info.Size()) / 8
	}
	write := func(n int) {
		for range n { // all of one timestamp: the time index does not grow
			_, err := l.Append(t.Context(), record.Record{Value: []byte("v"), Timestamp: time.UnixMilli(1)})
			require.NoError(t, err)
		}
	}
	write(50)
	require.NoError(t, l.Reconfigure(Config{IndexIntervalBytes: 1, IndexBytes: 20 * 8}))
	write(50)
	require.Len(t, l.Segments(), 1, "the one that was begun has room as before")
	require.NoError(t, l.Roll())
	require.Zero(t, entries(0))

	write(100)
	require.Len(t, l.Segments(), 6, "100 records that were there, four times 21, the first of which has no entry, and the rest")
	require.Equal(t, 20, entries(100))
	require.Len(t, values(t, l), 200)
	require.NoError(t, l.Close())
}

func TestShorterSyncIntervalCountsFromTheNextAppend(t *testing.T) {
	for _, c := range []struct {
		name   string
		opened int // number of earlier opens of the log
	}{{"new log, whose files nothing has synced yet", 0}, {"log of before", 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, before := vfs.Mem(), int64(c.opened)
				for range c.opened {
					l, err := Open("log", Config{FS: disk})
					require.NoError(t, err)
					fill(t, l, 1)
					require.NoError(t, l.Close())
				}
				l, err := Open("log", Config{FS: disk, Sync: SyncInterval(time.Hour)})
				require.NoError(t, err)
				fill(t, l, 1)
				require.NoError(t, l.Reconfigure(Config{Sync: SyncInterval(time.Second)}))
				require.Equal(t, before+1, l.DurableOffset(), "what was there is durable at once")
				fill(t, l, 1)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, before+2, l.DurableOffset())

				require.NoError(t, l.Reconfigure(Config{Sync: SyncNever}))
				fill(t, l, 1)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				require.Equal(t, before+2, l.DurableOffset())
				require.NoError(t, l.Close())
			})
		})
	}
}

func TestChangeOfPolicyIsOnTheDiskWhenItReturns(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	state := func() manifest.State {
		st, known, err := readState(disk, "log")
		require.NoError(t, err)
		require.True(t, known)
		return st
	}
	fill(t, l, 10)
	require.Zero(t, state().RecoveryPoint)
	require.NoError(t, l.Reconfigure(Config{Sync: SyncOnAck}))
	require.EqualValues(t, 10, state().RecoveryPoint)
	require.True(t, state().Strict)
	fill(t, l, 10)
	require.NoError(t, l.Reconfigure(Config{Sync: SyncNever}))
	require.EqualValues(t, 20, state().RecoveryPoint)
	require.False(t, state().Strict, "recovery must not believe that little can be lost")

	broken := disk.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "strata.state*", Times: vfs.Always, Err: syscall.EIO})
	require.ErrorIs(t, l.Reconfigure(Config{Sync: SyncOnAck}), syscall.EIO)
	broken()
	fill(t, l, 1)
	require.False(t, state().Strict, "nothing has changed")
	require.NoError(t, l.Close())
}

// TestReconfigurationsAreTakenOneAfterTheOther lets two goroutines append, and switch the policy
// back and forth. Each record is as durable as the policy at its append promises.
func TestReconfigurationsAreTakenOneAfterTheOther(t *testing.T) {
	t.Parallel()
	l, err := Open("log", Config{FS: vfs.Mem(), Sync: SyncNever})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range 200 {
				policy := []SyncPolicy{SyncNever, SyncOnAck}[i%2]
				_, err := l.Append(t.Context(), record.String("", "", "v"))
				if err != nil {
					t.Error(err)
				}
				err = l.ReconfigureWith(Config{Sync: policy}, func() {
					if l.cfg.Load().Sync != policy || policy == SyncOnAck && l.DurableOffset() != l.EndOffset() {
						t.Errorf("%v: durable %d, end %d", policy, l.DurableOffset(), l.EndOffset())
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 500 {
		fill(t, l, 1)
	}
	wg.Wait()
	require.NoError(t, l.Close())
}
