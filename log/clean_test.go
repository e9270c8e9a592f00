package log

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func openClean(t testing.TB, fsys vfs.FS, cfg Config) *Log {
	cfg.FS = fsys
	l, err := Open(bedDir, cfg)
	require.NoError(t, err)
	return l
}

// appendKV appends one batch of records "key=value", "key" for a tombstone, with the present time.
func appendKV(t testing.TB, l *Log, kv ...string) {
	var rs []record.Record
	for _, s := range kv {
		k, v, ok := strings.Cut(s, "=")
		r := record.String("", k, v)
		r.Timestamp = time.Now()
		if !ok {
			r.Value = nil
		}
		rs = append(rs, r)
	}
	_, err := l.Append(context.Background(), rs...)
	require.NoError(t, err)
}

// logDump returns the records of the log, in the format of compactBed.dump but without segments.
func logDump(t testing.TB, l *Log) string {
	var out []string
	for r, err := range l.Records(l.StartOffset()) {
		require.NoError(t, err)
		if r.Value == nil {
			out = append(out, fmt.Sprintf("%d:%s", r.Offset, r.Key))
		} else {
			out = append(out, fmt.Sprintf("%d:%s=%s", r.Offset, r.Key, r.Value))
		}
	}
	return strings.Join(out, " ")
}

func clean(t testing.TB, l *Log) CleanReport {
	rep, err := l.Clean(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.StartOffset(), rep.StartOffset)
	return rep
}

// With RetentionAge alone, records are removed well before twice that age: segments roll often
// enough.
func TestRetentionAgeAloneRemovesRecordsSoonAfterIt(t *testing.T) {
	for age, longest := range map[time.Duration]time.Duration{7 * 24 * time.Hour: 8 * 24 * time.Hour, time.Hour: 70 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			l := openClean(t, vfs.Mem(), Config{RetentionAge: age})
			begin, written := time.Now(), map[int64]time.Time{}
			for time.Since(begin) < 3*age {
				written[l.EndOffset()] = time.Now()
				appendKV(t, l, "a=1")
				clean(t, l)
				require.Less(t, time.Since(written[l.StartOffset()]), longest)
				time.Sleep(age / 100)
			}
			require.Positive(t, l.StartOffset())
			require.Less(t, len(l.Segments()), 12)
			require.NoError(t, l.Close())
		})
	}
	for _, cfg := range []Config{{}, {RetentionAge: Unlimited}, {RetentionAge: time.Hour, Cleanup: CleanupCompact}} {
		got, err := cfg.withDefaults()
		require.NoError(t, err)
		require.Equal(t, DefaultSegmentAge, got.SegmentAge)
	}
}

func TestExpiredActiveSegmentIsRolledAndThenRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		l := openClean(t, fsys, Config{RetentionAge: time.Hour})
		appendKV(t, l, "a=1", "b=1")
		require.NoError(t, l.Roll())
		time.Sleep(30 * time.Minute)
		appendKV(t, l, "c=1")
		rep := clean(t, l)
		require.Len(t, rep.Segments, 2)
		require.False(t, rep.Segments[0].Removed)

		time.Sleep(30*time.Minute + time.Millisecond)
		rep = clean(t, l)
		require.True(t, rep.Segments[0].Removed)
		require.Contains(t, rep.Segments[0].Reason, "1h0m0.001s old")
		require.False(t, rep.Segments[1].Removed)
		require.EqualValues(t, 2, l.StartOffset())

		time.Sleep(time.Hour)
		rep = clean(t, l)
		require.True(t, rep.Segments[0].Removed)
		require.EqualValues(t, 3, l.StartOffset())
		require.EqualValues(t, 3, l.EndOffset(), "offsets are never given again")
		require.Len(t, l.Segments(), 1)
		rep = clean(t, l)
		require.False(t, rep.Segments[0].Removed)
		appendKV(t, l, "d=1")
		require.Equal(t, "3:d=1", logDump(t, l))
		require.NoError(t, l.Close())

		l = openClean(t, fsys, Config{RetentionAge: time.Hour})
		require.EqualValues(t, 3, l.StartOffset())
		require.Equal(t, "3:d=1", logDump(t, l))
		require.NoError(t, l.Close())
	})
}

// A high watermark of 0 counts as set: nothing is replicated yet, so nothing may be removed.
func TestRetentionRemovesNothingAboveAHighWatermarkOfZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openClean(t, vfs.Mem(), Config{RetentionAge: time.Hour, RetentionBytes: 1})
		for _, kv := range []string{"a=1", "b=1", "c=1"} {
			appendKV(t, l, kv)
			require.NoError(t, l.Roll())
		}
		time.Sleep(2 * time.Hour)
		for hw := range int64(4) {
			l.SetHighWatermark(hw)
			clean(t, l)
			require.Equal(t, hw, l.StartOffset())
		}
		require.NoError(t, l.Close())
	})
}

// Compaction changes no record at or above the high watermark, also if the high watermark is 0.
func TestCompactionStaysBelowAHighWatermarkOfZero(t *testing.T) {
	l := openClean(t, vfs.Mem(), compacting)
	for _, kv := range []string{"a=1", "a=2", "a=3"} {
		appendKV(t, l, kv)
		require.NoError(t, l.Roll())
	}
	l.SetHighWatermark(0)
	clean(t, l)
	require.Equal(t, "0:a=1 1:a=2 2:a=3", logDump(t, l))
	l.SetHighWatermark(3)
	clean(t, l)
	require.Equal(t, "2:a=3", logDump(t, l))
	require.NoError(t, l.Close())
}

func TestUnlimitedRetentionKeepsEverything(t *testing.T) {
	synctest.TestFor(t, 101*365*24*time.Hour, func(t *testing.T) {
		l := openClean(t, vfs.Mem(), Config{RetentionAge: Unlimited})
		appendKV(t, l, "a=1")
		require.NoError(t, l.Roll())
		appendKV(t, l, "b=1")
		time.Sleep(100 * 365 * 24 * time.Hour)
		for _, v := range clean(t, l).Segments {
			require.False(t, v.Removed)
		}
		require.Equal(t, "0:a=1 1:b=1", logDump(t, l))
		require.NoError(t, l.Close())
	})
}

func TestRetentionBySizeRemovesOnlyWholeClosedSegments(t *testing.T) {
	t.Parallel()
	l := openClean(t, vfs.Mem(), Config{SegmentBytes: 2000, RetentionBytes: 5000})
	for i := range 20 {
		appendKV(t, l, fmt.Sprintf("k%d=%s", i, strings.Repeat("v", 900)))
	}
	rep := clean(t, l)
	var total int64
	for _, s := range l.Segments() {
		total += s.Size
		require.LessOrEqual(t, s.Size, int64(2000))
	}
	require.GreaterOrEqual(t, total, int64(5000), "never below the limit")
	require.Less(t, total, int64(7000))
	gone := 0
	for _, v := range rep.Segments {
		if v.Removed {
			gone++
		}
	}
	require.Equal(t, len(rep.Segments)-gone, len(l.Segments()))
	require.Equal(t, l.Segments()[0].BaseOffset, l.StartOffset())
	_, err := l.Read(nil, 0, 100)
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	require.NoError(t, l.Close())
}

func TestRetentionNeverPassesTheHighWatermark(t *testing.T) {
	t.Parallel()
	l := openClean(t, vfs.Mem(), Config{RetentionAge: time.Nanosecond})
	for i := range 4 {
		_, err := l.Append(t.Context(), record.Record{Value: []byte{byte(i)}, Timestamp: time.UnixMilli(1)})
		require.NoError(t, err)
		require.NoError(t, l.Roll())
	}
	l.SetHighWatermark(2)
	rep := clean(t, l)
	require.EqualValues(t, 2, l.StartOffset())
	require.Contains(t, rep.Segments[2].Reason, "high watermark 2")
	l.SetHighWatermark(4)
	clean(t, l)
	require.EqualValues(t, 4, l.StartOffset())
	require.NoError(t, l.Close())
}

func TestDeletedRecordsLeaveWholeSegmentsToClean(t *testing.T) {
	t.Parallel()
	for _, policy := range []CleanupPolicy{CleanupDelete, CleanupNone} {
		fsys := vfs.Mem()
		cfg := Config{Cleanup: policy, RetentionAge: Unlimited}
		l := openClean(t, fsys, cfg)
		for range 3 {
			appendKV(t, l, "a=1", "a=2")
			require.NoError(t, l.Roll())
		}
		require.NoError(t, l.DeleteRecords(3))
		rep := clean(t, l)
		require.Contains(t, rep.Segments[0].Reason, "start offset 3")
		require.Len(t, l.Segments(), 3)
		require.EqualValues(t, 3, l.StartOffset(), "in the middle of a segment")
		require.NoError(t, l.Close())
		l = openClean(t, fsys, cfg)
		require.EqualValues(t, 3, l.StartOffset())
		require.NoError(t, l.Close())
	}
}

var compacting = Config{Cleanup: CleanupCompact, MinDirtyRatio: 0.01}

func TestLogIsCompactedAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		l := openClean(t, fsys, compacting)
		for i := range 3 {
			appendKV(t, l, fmt.Sprintf("a=%d", i), fmt.Sprintf("b=%d", i), "c=0")
			require.NoError(t, l.Roll())
		}
		appendKV(t, l, "b")
		rep := clean(t, l)
		require.Empty(t, rep.Compaction.Skipped)
		require.EqualValues(t, 9, rep.Compaction.End)
		require.Equal(t, "6:a=2 7:b=2 8:c=0 9:b", logDump(t, l))
		require.Len(t, l.Segments(), 2)
		require.EqualValues(t, 0, l.StartOffset(), "does not move")
		require.NotEmpty(t, clean(t, l).Compaction.Skipped)
		p, err := l.Read(nil, 3, 1000)
		require.NoError(t, err, "an offset whose record is gone reads on with the next")
		b, _, err := record.Parse(p)
		require.NoError(t, err)
		require.EqualValues(t, 6, b.BaseOffset)
		require.NoError(t, l.Close())

		l = openClean(t, fsys, compacting)
		require.True(t, l.Recovery().Clean)
		require.Equal(t, "6:a=2 7:b=2 8:c=0 9:b", logDump(t, l))
		require.NotEmpty(t, clean(t, l).Compaction.Skipped, "the mark is kept")
		require.NoError(t, l.Roll())
		rep = clean(t, l)
		require.EqualValues(t, 9, rep.Compaction.FirstDirty)
		require.Equal(t, "6:a=2 8:c=0 9:b", logDump(t, l))
		time.Sleep(DefaultDeleteRetention)
		appendKV(t, l, "d=1")
		require.NoError(t, l.Roll())
		clean(t, l)
		require.Equal(t, "6:a=2 8:c=0 10:d=1", logDump(t, l), "the tombstone has had its time")
		require.NoError(t, l.Close())
	})
}

func TestCompactionAndRetentionTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := compacting
		cfg.Cleanup, cfg.RetentionAge = CleanupCompact|CleanupDelete, time.Hour
		l := openClean(t, vfs.Mem(), cfg)
		appendKV(t, l, "a=1")
		require.NoError(t, l.Roll())
		time.Sleep(2 * time.Hour)
		appendKV(t, l, "b=1", "b=2")
		require.NoError(t, l.Roll())
		rep := clean(t, l)
		require.True(t, rep.Segments[0].Removed)
		require.Equal(t, "2:b=2", logDump(t, l))
		require.NoError(t, l.Close())
	})
}

// producersOwner is an Owner that only limits compaction.
type producersOwner struct {
	stable int64
	last   map[int64]ProducerLast
}

func (o *producersOwner) Admit(*Append) error                             { return nil }
func (o *producersOwner) Written([]*Append)                               {}
func (o *producersOwner) Refused([]*Append, error)                        {}
func (o *producersOwner) Durable(int64)                                   {}
func (o *producersOwner) LastStableOffset() int64                         { return o.stable }
func (o *producersOwner) ProducerLast(id int64) (p ProducerLast, ok bool) { p, ok = o.last[id]; return }

func TestCompactionAsksTheOwnerAboutProducers(t *testing.T) {
	t.Parallel()
	cfg := compacting
	owner := &producersOwner{stable: 1, last: map[int64]ProducerLast{7: {Offset: 1}}}
	cfg.Owner = owner
	l := openClean(t, vfs.Mem(), cfg)
	for i := range int32(4) {
		var b record.Builder
		b.SetProducer(7, 0, i)
		b.AppendKV(1000, []byte("a"), []byte("v"), nil)
		p, err := b.Build(record.None)
		require.NoError(t, err)
		_, err = l.AppendBatch(t.Context(), p)
		require.NoError(t, err)
		require.NoError(t, l.Roll())
	}
	require.Equal(t, int64(1), clean(t, l).Compaction.End, "nothing above the last stable offset")
	owner.stable = 100
	clean(t, l)
	require.Equal(t, "3:a=v", logDump(t, l))
	var bases []int64
	for b, err := range l.Batches(0) {
		require.NoError(t, err)
		bases = append(bases, b.BaseOffset)
	}
	require.Equal(t, []int64{1, 3}, bases, "the header of the last batch of a live producer")
	require.NoError(t, l.Close())
}

func TestTruncationMakesWhatComesAfterItDirtyAgain(t *testing.T) {
	t.Parallel()
	l := openClean(t, vfs.Mem(), compacting)
	for range 4 {
		appendKV(t, l, "a=1", "b=1")
		require.NoError(t, l.Roll())
	}
	require.EqualValues(t, 8, clean(t, l).Compaction.End)
	require.NoError(t, l.TruncateTo(6))
	for range 2 {
		appendKV(t, l, "a=2", "b=2")
		require.NoError(t, l.Roll())
	}
	rep := clean(t, l)
	require.LessOrEqual(t, rep.Compaction.FirstDirty, int64(6))
	require.Equal(t, 2, len(strings.Fields(logDump(t, l))), logDump(t, l))
	require.NoError(t, l.Close())
}

func TestCleanOfAClosedOrReadOnlyLogIsRefused(t *testing.T) {
	t.Parallel()
	fsys := vfs.Mem()
	l := openClean(t, fsys, compacting)
	appendKV(t, l, "a=1")
	require.NoError(t, l.Close())
	_, err := l.Clean(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	ro, err := OpenReadOnly(bedDir, Config{FS: fsys})
	require.NoError(t, err)
	_, err = ro.Clean(t.Context())
	require.ErrorIs(t, err, ErrReadOnly)
	require.NoError(t, ro.Close())
	l = openClean(t, fsys, compacting)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Clean(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, l.Close())
}

func TestCloseEndsACleanAndWaitsForIt(t *testing.T) {
	t.Parallel()
	for n := range 25 {
		fsys := vfs.Mem()
		l := openClean(t, fsys, compacting)
		for range 5 {
			appendKV(t, l, "a=1", "b=1")
			require.NoError(t, l.Roll())
		}
		reached := make(chan struct{})
		var ops atomic.Int64 // includes a background sync of rolled segments
		stop := fsys.Observe(vfs.Observer{Before: func(vfs.Event) {
			if ops.Add(1) == 4*int64(n)+1 {
				close(reached)
			}
		}})
		ended := make(chan error, 1)
		go func() {
			_, err := l.Clean(context.Background())
			ended <- err
		}()
		select {
		case <-reached:
		case err := <-ended:
			require.NoError(t, err)
			ended <- nil
		}
		require.NoError(t, l.Close())
		stop()
		if err := <-ended; err != nil {
			require.ErrorIs(t, err, ErrClosed)
		}
		l = openClean(t, fsys, compacting)
		require.Equal(t, map[string]string{"a": "1", "b": "1"}, lastValues(logDump(t, l)))
		require.NoError(t, l.Close())
	}
}

// After a power cut at any moment, the table of the log is unchanged, and a sealed segment that
// was kept is complete.
func TestPowerCutAtEveryStepOfClean(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		cfg := compacting
		cfg.Sync = policy
		fsys := vfs.Mem()
		l := openClean(t, fsys, cfg)
		for i := range 4 {
			appendKV(t, l, fmt.Sprintf("a=%d", i), fmt.Sprintf("k%d=%d", i%2, i), fmt.Sprintf("only%d=x", i))
			require.NoError(t, l.Roll())
		}
		appendKV(t, l, "k1", "new=1")
		require.NoError(t, l.Sync())
		table := lastValues(logDump(t, l))
		cuts := moments(fsys, randomCrashes(fsys, 5), func() { clean(t, l) })
		require.Greater(t, len(cuts), 150)
		for _, cut := range cuts {
			again, err := Open(bedDir, Config{FS: cut.disk})
			require.NoError(t, err, "policy %v, crash before %v", policy, cut.before)
			require.Equal(t, table, lastValues(logDump(t, again)), "policy %v, crash before %v", policy, cut.before)
			require.EqualValues(t, 14, again.EndOffset(), "policy %v, crash before %v", policy, cut.before)
			require.NoError(t, again.Close())
		}
		require.NoError(t, l.Close())
	}
}

func TestFailureAtEveryStepOfCleanKeepsTheTable(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for n := 0; ; n++ {
		fsys := vfs.Mem()
		l := openClean(t, fsys, compacting)
		for i := range 3 {
			appendKV(t, l, fmt.Sprintf("a=%d", i), fmt.Sprintf("k%d=x", i))
			require.NoError(t, l.Roll())
		}
		table := lastValues(logDump(t, l))
		remove := fsys.Inject(vfs.Fault{Ops: vfs.OpChange | vfs.OpRead, After: n, Err: boom})
		hit, stop := failures(fsys, boom)
		_, err := l.Clean(t.Context())
		remove()
		stop()
		if hit.Load() == 0 {
			require.NoError(t, err)
			require.NoError(t, l.Close())
			require.Greater(t, n, 20)
			return
		}
		_ = l.Close() // a broken log returns its error again
		again, err := Open(bedDir, Config{FS: fsys})
		require.NoError(t, err, "failure of operation %d", n)
		require.Equal(t, table, lastValues(logDump(t, again)), "failure of operation %d", n)
		require.NoError(t, again.Close())
	}
}

var _ Producers = (*producersOwner)(nil)

func TestCompactionWithMoreKeysThanMemoryTakesSeveralPasses(t *testing.T) {
	cfg := compacting
	cfg.CompactionMemory = 24 << 10 // 768 keys
	l := openClean(t, vfs.Mem(), cfg)
	for round := range 2 {
		for i := range 20 {
			var kv []string
			for j := range 100 {
				kv = append(kv, fmt.Sprintf("%d=%d", i*100+j, round))
			}
			appendKV(t, l, kv...)
		}
	}
	require.NoError(t, l.Roll())
	passes := 0
	for {
		rep := clean(t, l).Compaction
		if rep.Skipped != "" {
			break
		}
		require.LessOrEqual(t, rep.End-rep.FirstDirty, int64(768+100))
		passes++
	}
	require.Equal(t, 6, passes, "4,000 records, 700 at a time: whole batches")
	n := 0
	for r, err := range l.Records(0) {
		require.NoError(t, err)
		require.Equal(t, "1", string(r.Value))
		n++
	}
	require.Equal(t, 2000, n)
	require.NoError(t, l.Close())
}
