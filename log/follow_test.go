package log

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestFollowWaitsForRecordsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open("log", Config{FS: vfs.Mem()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var got [3][]string
		for i := range got {
			wg.Go(func() {
				for r, err := range l.Follow(ctx, 0) {
					if err != nil {
						t.Error(err)
						return
					}
					got[i] = append(got[i], string(r.Value))
				}
			})
		}
		var want []string
		for i := range 20 {
			// All followers are waiting: none of them polls, or this would take an hour of work.
			time.Sleep(time.Hour)
			v := fmt.Sprint(i)
			_, err := l.Append(ctx, record.String("", "", v))
			require.NoError(t, err)
			want = append(want, v)
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		for i := range got {
			require.Equal(t, want, got[i])
		}
		require.NoError(t, l.Close())
	})
}

func TestCloseWakesFollowersWithErrClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open("log", Config{FS: vfs.Mem()})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, err := range l.Follow(t.Context(), 0) {
				last = err
			}
			ended <- last
		}()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-ended, ErrClosed)
		require.NoError(t, l.Close(), "idempotent")
		_, err = l.Append(t.Context(), record.String("", "", "v"))
		require.ErrorIs(t, err, ErrClosed)
		_, err = l.Read(nil, 0, 1)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, l.Sync(), ErrClosed)
		require.ErrorIs(t, l.Roll(), ErrClosed)
	})
}

func TestSyncIntervalSyncsWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk, Sync: SyncInterval(time.Second)})
		require.NoError(t, err)
		_, err = l.Append(t.Context(), record.String("", "", "v"))
		require.NoError(t, err)
		require.EqualValues(t, 0, l.DurableOffset())
		time.Sleep(time.Second - 1)
		synctest.Wait()
		require.EqualValues(t, 0, l.DurableOffset(), "not before its time")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.EqualValues(t, 1, l.DurableOffset())
		for seed := range uint64(5) {
			again := openMem(t, disk.Crash(seed))
			require.EqualValues(t, 1, again.EndOffset(), "synced records survive")
			require.NoError(t, again.Close())
		}
		syncs := l.Stats().Syncs
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, syncs, l.Stats().Syncs, "nothing was written: nothing to sync")
		require.NoError(t, l.Close())
	})
}

func openMem(t *testing.T, disk vfs.FS) *Log {
	t.Helper()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	return l
}

// The counterpart of the promise of SyncOnAck: under SyncNever a power cut can remove acknowledged
// records. If this test fails the crash tests prove nothing.
func TestSyncNeverLosesAcknowledgedRecordsInAPowerCut(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		lost := 0
		for seed := range uint64(40) {
			disk := vfs.Mem()
			l, err := Open("log", Config{FS: disk, Sync: policy})
			require.NoError(t, err)
			for i := range 5 {
				_, err := l.Append(t.Context(), record.String("", "", fmt.Sprint(i)))
				require.NoError(t, err)
			}
			after := disk.Crash(seed)
			require.NoError(t, l.Close())
			again := openMem(t, after)
			next := int64(0)
			for r, err := range again.Records(again.StartOffset()) {
				require.NoError(t, err)
				require.Equal(t, next, r.Offset)
				require.Equal(t, fmt.Sprint(next), string(r.Value))
				next++
			}
			if next < 5 {
				lost++
			}
			require.NoError(t, again.Close())
		}
		if policy == SyncOnAck {
			require.Zero(t, lost)
		} else {
			require.Positive(t, lost)
		}
	}
}

func TestCancelEndsTheWaitAndNotTheAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk})
		require.NoError(t, err)
		_, err = l.Append(t.Context(), record.String("", "", "first"))
		require.NoError(t, err)
		remove := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { // keeps the disk busy: its own sync takes an hour
			_, err := l.Append(t.Context(), record.String("", "", "second"))
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		_, err = l.Append(ctx, record.String("", "", "third"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
		remove()
		wg.Wait()
		var values []string
		for r, err := range l.Follow(t.Context(), 0) {
			require.NoError(t, err)
			if values = append(values, string(r.Value)); len(values) == 3 {
				break
			}
		}
		require.Equal(t, []string{"first", "second", "third"}, values)
		require.NoError(t, l.Close())
	})
}

func TestFailedSyncIsStickyAndOtherLogsGoOn(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	good, err := Open("data/good-0", Config{Dir: d})
	require.NoError(t, err)
	bad, err := Open("data/bad-0", Config{Dir: d})
	require.NoError(t, err)
	require.NoError(t, bad.TruncateFully(100)) // its file has a name of its own
	v := record.String("", "", "v")
	_, err = bad.Append(t.Context(), v)
	require.NoError(t, err)
	eio := errors.New("input/output error")
	remove := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*100.log", Err: eio})
	_, first := bad.Append(t.Context(), v)
	require.ErrorIs(t, first, eio)
	remove() // later syncs of the file would succeed: the log does not retry
	syncs := disk.Count(vfs.OpSync)
	_, again := bad.Append(t.Context(), v)
	require.ErrorIs(t, again, eio)
	require.ErrorIs(t, bad.Sync(), eio)
	require.ErrorIs(t, bad.Roll(), eio)
	require.Equal(t, syncs, disk.Count(vfs.OpSync), "a failed sync is never retried")
	require.EqualValues(t, 101, bad.DurableOffset())
	p, err := bad.Read(nil, 100, 1)
	require.NoError(t, err)
	require.NotEmpty(t, p)
	_, err = good.Append(t.Context(), v)
	require.NoError(t, err)
	require.ErrorIs(t, bad.Close(), eio)
	require.NoError(t, good.Close())
	_ = d.Close()
}

func TestFailedWriteIsCutBackAndHeals(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk, Sync: policy})
		require.NoError(t, err)
		v := record.String("", "", "value")
		_, err = l.Append(t.Context(), v)
		require.NoError(t, err)
		full := errors.New("no space left on device")
		for _, short := range []int{0, 1, 30, 70} {
			remove := disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: full, Keep: short})
			_, err = l.Append(t.Context(), v)
			require.ErrorIs(t, err, full)
			require.EqualValues(t, 1, l.EndOffset())
			remove()
		}
		first, err := l.Append(t.Context(), v)
		require.NoError(t, err)
		require.EqualValues(t, 1, first)
		require.NoError(t, l.Close())
		again := openMem(t, disk)
		require.EqualValues(t, 2, again.EndOffset())
		require.NoError(t, again.Close())
	}
}

func TestSecondOpenOfADirectoryIsLocked(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openMem(t, disk)
	_, err := Open("log", Config{FS: disk})
	require.ErrorIs(t, err, ErrLocked)
	_, err = l.Append(t.Context(), record.String("", "", "v"))
	require.NoError(t, err)
	ro, err := OpenReadOnly("log", Config{FS: disk})
	require.NoError(t, err)
	require.EqualValues(t, 1, ro.EndOffset())
	_, err = ro.Append(t.Context(), record.String("", "", "v"))
	require.ErrorIs(t, err, ErrReadOnly)
	require.ErrorIs(t, ro.Roll(), ErrReadOnly)
	require.NoError(t, ro.Close())
	require.NoError(t, l.Close())
	require.NoError(t, openMem(t, disk).Close())
}

// Offsets before the end can have no record: a compaction removed them, and a truncation removed
// the records behind them. A follower waits there for the next record, without polling.
func TestFollowWaitsBehindAGapAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open("log", Config{FS: vfs.Mem(), Cleanup: CleanupCompact, MinDirtyRatio: 0.01})
		require.NoError(t, err)
		appendKV(t, l, "a=1")
		appendKV(t, l, "a=2")
		require.NoError(t, l.Roll())
		clean(t, l)
		require.NoError(t, l.TruncateTo(1))
		require.Equal(t, []int64{0, 1}, []int64{l.StartOffset(), l.EndOffset()})
		next := make(chan record.Record)
		go func() {
			for r, err := range l.Follow(t.Context(), 0) {
				if err != nil {
					break
				}
				next <- r
			}
			close(next)
		}()
		synctest.Wait() // it waits: if it polled, this would hang
		appendKV(t, l, "a=3")
		r := <-next
		require.Equal(t, []any{int64(1), "3"}, []any{r.Offset, string(r.Value)})
		require.NoError(t, l.Close())
		_, more := <-next
		require.False(t, more)
	})
}
