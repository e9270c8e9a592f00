package log_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// batchOf returns one batch with one record.
func batchOf(t *testing.T, id int64) []byte {
	t.Helper()
	var b record.Builder
	b.Append(&record.Record{Value: valueOf(id)})
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	return batch
}

// openLogs opens n logs of one directory in memory and closes them with the test.
func openLogs(t *testing.T, n int, cfg log.Config) ([]*log.Log, *vfs.MemFS) {
	t.Helper()
	fsys := vfs.Mem()
	dir, err := log.OpenDirectory("/data", log.DirectoryConfig{FS: fsys})
	require.NoError(t, err)
	cfg.FS, cfg.Dir = fsys, dir
	logs := make([]*log.Log, n)
	for i := range logs {
		logs[i], err = log.Open(fmt.Sprintf("/data/t-%d", i), cfg)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, l := range logs {
			require.NoError(t, l.Close())
		}
		require.NoError(t, dir.Close())
	})
	return logs, fsys
}

// TestSubmitDoesNotWaitForASync submits to six idle logs from one goroutine on a disk where every
// sync of every file takes a minute. No Submit waits, and the syncs run in parallel.
func TestSubmitDoesNotWaitForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, fsys := openLogs(t, 6, log.Config{RetentionAge: log.Unlimited})
		for round := range int64(2) { // the first one also creates files
			remove := fsys.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Delay: time.Minute, Times: vfs.Always})
			done := make(chan *log.Append, len(logs))
			start := time.Now()
			for _, l := range logs {
				l.Submit(&log.Append{Batch: batchOf(t, round), LeaderEpoch: -1, Done: func(a *log.Append) { done <- a }})
			}
			require.Zero(t, time.Since(start))
			synctest.Wait()
			require.Empty(t, done, "nothing is acknowledged before its sync has ended")
			for range logs {
				a := <-done
				require.NoError(t, a.Err)
				require.Equal(t, round, a.BaseOffset)
			}
			if round > 0 {
				require.Equal(t, time.Minute, time.Since(start), "six logs cost one sync")
			}
			remove()
		}
	})
}

// TestCancelledWaitOfALoneAppendReturnsAtOnce: cancelling also ends the wait of the log's only
// append, and of an append that needs a new segment.
func TestCancelledWaitOfALoneAppendReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fsys := openMem(t, log.Config{RetentionAge: log.Unlimited, SegmentBytes: 1024, IndexIntervalBytes: 300, IndexBytes: 120})
		slow := fsys.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Delay: time.Minute, Times: vfs.Always})
		for id := int64(0); id < 20; id += 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			_, err := l.Append(ctx, record.Record{Value: valueOf(id)})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(start))
			cancel()
			time.Sleep(time.Hour) // alone again
			ctx, cancel = context.WithCancel(t.Context())
			batch := batchOf(t, id+1)
			go func() {
				synctest.Wait()
				cancel()
			}()
			start = time.Now()
			_, err = l.AppendBatch(ctx, batch)
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, time.Since(start))
			clear(batch) // the caller owns it again
			time.Sleep(time.Hour)
		}
		slow()
		require.Greater(t, len(l.Segments()), 3)
		f, err := readLog(l)
		require.NoError(t, err)
		for i, id := range f.ids {
			require.EqualValues(t, i, id, "an accepted append takes place, with the bytes it was given")
		}
		require.Len(t, f.ids, 20)
		require.NoError(t, l.Close())
	})
}

// TestRecoveredLogClosedWithoutAnAppendIsClean: the next open has nothing to recover.
func TestRecoveredLogClosedWithoutAnAppendIsClean(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		l, fsys := openMem(t, exploreConfig(policy))
		for id := range int64(30) {
			_, err := appendID(l, id)
			require.NoError(t, err)
		}
		killed := fsys.Kill()
		require.NoError(t, l.Close())
		for _, clean := range []bool{false, true, true} {
			cfg := exploreConfig(policy)
			cfg.FS = killed
			l, err := log.Open(exploreDir, cfg)
			require.NoError(t, err)
			require.Equal(t, clean, l.Recovery().Clean)
			require.EqualValues(t, 30, l.EndOffset())
			require.NoError(t, l.Close())
		}
	}
}
