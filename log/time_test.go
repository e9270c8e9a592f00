package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// appendAt appends one batch with records of the given timestamps in ms.
func appendAt(t testing.TB, l *Log, ms ...int64) {
	t.Helper()
	var rs []record.Record
	for _, ts := range ms {
		r := record.String("", fmt.Sprint("key", ts), "v")
		r.Timestamp = time.UnixMilli(ts)
		rs = append(rs, r)
	}
	_, err := l.Append(t.Context(), rs...)
	require.NoError(t, err)
}

// A compaction without a record to remove replaces every segment, on a disk where each directory
// sync takes a second. Time lookups run during that time, and each has one right answer.
func TestTimeLookupsAreExactWhileSegmentsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		cfg := compacting
		cfg.SegmentBytes = 600
		l := openClean(t, disk, cfg)
		for i := range int64(20) {
			appendAt(t, l, 1000+10*i, 1005+10*i)
			if i%2 == 1 {
				require.NoError(t, l.Roll())
			}
		}
		before := len(l.Segments())
		remove := disk.Inject(vfs.Fault{Ops: vfs.OpSyncDir, Delay: time.Second, Times: vfs.Always})
		done := make(chan CleanReport)
		go func() { done <- clean(t, l) }()
		lookups, spanned := 0, 0
		for rnd, running := rand.New(rand.NewPCG(1, 1)), true; running; lookups++ {
			select {
			case rep := <-done:
				require.Less(t, rep.Compaction.SegmentsAfter, rep.Compaction.SegmentsBefore)
				running = false
			default:
			}
			if _, deleted := logFilesOf(t, disk); deleted > 0 {
				spanned++ // it reads a segment that is being replaced
			}
			i, start := rnd.Int64N(40), time.Now()
			offset, ts, err := l.OffsetForTimestamp(time.UnixMilli(1000 + 5*i - rnd.Int64N(5)))
			require.NoError(t, err)
			require.Equal(t, i, offset)
			require.Equal(t, 1000+5*i, ts)
			offset, ts, err = l.MaxTimestampOffset()
			require.NoError(t, err)
			require.EqualValues(t, 39, offset)
			require.EqualValues(t, 1195, ts)
			require.Zero(t, time.Since(start), "it waits for nobody's disk")
			time.Sleep(70 * time.Millisecond)
		}
		require.Less(t, len(l.Segments()), before)
		require.Greater(t, spanned, 3, "of %d", lookups)
		remove()
		require.NoError(t, l.Close())
	})
}

// A time lookup waits for the disk at the first segment, whose largest timestamp is of a deleted
// record. When it continues, all other segments in its list have been replaced, and no other
// goroutine holds them.
func TestTimeLookupGoesOnInWhatReplacedItsSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		l := openClean(t, disk, compacting)
		appendAt(t, l, 9000)
		for i := range int64(12) {
			appendAt(t, l, 1000+10*i, 1005+10*i)
			require.NoError(t, l.Roll())
		}
		require.NoError(t, l.DeleteRecords(1))
		defer disk.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "00000000000000000000.log", Delay: time.Minute})()
		began, done := time.Now(), make(chan error, 1)
		go func() {
			offset, ts, err := l.OffsetForTimestamp(time.UnixMilli(1076))
			if err == nil && (offset != 17 || ts != 1080) {
				err = fmt.Errorf("found %d of %d ms, it is 17 of 1080 ms", offset, ts)
			}
			done <- err
		}()
		synctest.Wait()
		rep := clean(t, l)
		require.Less(t, rep.Compaction.SegmentsAfter, rep.Compaction.SegmentsBefore)
		require.Less(t, time.Since(began), time.Minute, "the lookup has not gone on yet")
		require.NoError(t, <-done)
		require.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, l.Close())
	})
}

// DeleteRecords removes the record with the largest timestamp: the largest remaining timestamp
// counts.
func TestLargestTimestampIsThatOfWhatCanBeRead(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 5))
	for range 30 {
		l := openClean(t, vfs.Mem(), Config{SegmentBytes: 500})
		var all []int64
		for range 25 {
			var batch []int64
			for range 1 + rnd.IntN(4) {
				batch = append(batch, rnd.Int64N(50))
			}
			appendAt(t, l, batch...)
			all = append(all, batch...)
		}
		for start := range int64(len(all)) {
			require.NoError(t, l.DeleteRecords(start))
			want, largest := int64(-1), int64(-1)
			for o := start; o < int64(len(all)); o++ {
				if all[o] > largest {
					want, largest = o, all[o]
				}
			}
			offset, ts, err := l.MaxTimestampOffset()
			require.NoError(t, err)
			require.Equal(t, []int64{want, largest}, []int64{offset, ts}, "records from %d on of %v", start, all)
		}
		require.NoError(t, l.DeleteRecords(l.EndOffset()))
		offset, _, err := l.MaxTimestampOffset()
		require.NoError(t, err)
		require.EqualValues(t, -1, offset)
		require.NoError(t, l.Close())
	}
}

// A batch that the log accepted is found and read, regardless of its decompressed size.
func TestLookupsTakeBatchesThatInflateBeyondTheUsualBound(t *testing.T) {
	t.Parallel()
	l := openClean(t, vfs.Mem(), Config{})
	var b record.Builder
	value := bytes.Repeat([]byte("x"), 24<<20)
	for i := range 6 {
		b.Append(&record.Record{Timestamp: time.UnixMilli(int64(1000 + i)), Value: value})
	}
	batch, err := b.Build(record.Zstd)
	require.NoError(t, err)
	require.Less(t, len(batch), DefaultMaxBatchBytes)
	_, err = l.AppendBatch(t.Context(), batch)
	require.NoError(t, err)
	offset, ts, err := l.OffsetForTimestamp(time.UnixMilli(1003))
	require.NoError(t, err)
	require.Equal(t, []int64{3, 1003}, []int64{offset, ts})
	require.NoError(t, l.DeleteRecords(2))
	offset, _, err = l.MaxTimestampOffset()
	require.NoError(t, err)
	require.EqualValues(t, 5, offset)
	n := 0
	for r, err := range l.Records(2) {
		require.NoError(t, err)
		require.Len(t, r.Value, len(value))
		n++
	}
	require.Equal(t, 4, n)
	require.NoError(t, l.Close())
}

// Retention must not take the largest timestamp of the readable part of a segment for the largest
// timestamp of the segment.
func TestRetentionKeepsWhatItCannotTellTheAgeOf(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{RetentionAge: 7 * 24 * time.Hour, SegmentAge: 30 * 24 * time.Hour, Sync: SyncNever}
	l := openClean(t, disk, cfg)
	old, recent := time.Now().Add(-8*24*time.Hour).UnixMilli(), time.Now().Add(-time.Hour).UnixMilli()
	for i := range int64(3000) { // headers of more than one read
		appendAt(t, l, old+i)
	}
	appendAt(t, l, recent)
	require.NoError(t, l.Roll())
	appendAt(t, l, recent)
	require.NoError(t, l.Close())
	require.NoError(t, disk.Remove(filePath(bedDir, 0, segment.TimeIndexSuffix)))
	require.NoError(t, disk.SyncDir(bedDir))

	failed := 0
	for n := range 12 { // each read of the lookup fails once
		state := disk.Kill()
		l = openClean(t, state, cfg)
		heal := state.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "00000000000000000000.log", After: n, Err: syscall.EIO})
		rep, err := l.Clean(t.Context())
		heal()
		require.NoError(t, err)
		require.False(t, rep.Segments[0].Removed, "read %d failed, and records of an hour ago went", n)
		if rep.Segments[0].Reason != "within the limits" {
			require.Contains(t, rep.Segments[0].Reason, "not known")
			failed++
			require.Equal(t, recent, l.Segments()[0].MaxTimestamp.UnixMilli(), "read %d: it is known again when the disk is", n)
		}
		rep, err = l.Clean(t.Context())
		require.NoError(t, err)
		require.Equal(t, "within the limits", rep.Segments[0].Reason)
		_, err = l.OffsetAt(time.UnixMilli(recent))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	require.Greater(t, failed, 2)
}

func TestReadsOfAClosedLogAreRefused(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openMem(t, disk)
	fill(t, l, 5)
	require.NoError(t, l.WriteSnapshot(5, []byte("x")))
	ro, err := OpenReadOnly("log", Config{FS: disk})
	require.NoError(t, err)
	for _, l := range []*Log{ro, l} {
		end := l.EndOffset()
		require.NoError(t, l.Close())
		for name, call := range map[string]func() error{
			"Read":               func() error { _, err := l.Read(nil, 0, 100); return err },
			"Read at the end":    func() error { _, err := l.Read(nil, end, 100); return err },
			"ReadUpTo":           func() error { _, err := l.ReadUpTo(nil, 0, 100, 3); return err },
			"OffsetAt":           func() error { _, err := l.OffsetAt(time.Now()); return err },
			"OffsetForTimestamp": func() error { _, _, err := l.OffsetForTimestamp(time.Time{}); return err },
			"MaxTimestampOffset": func() error { _, _, err := l.MaxTimestampOffset(); return err },
			"AbortedTxns":        func() error { _, err := l.AbortedTxns(0, 5); return err },
			"SnapshotFiles":      func() error { _, err := l.SnapshotFiles(); return err },
			"ReadSnapshot":       func() error { _, err := l.ReadSnapshot(5); return err },
			"Records":            func() error { return firstError(l.Records(0)) },
			"Records at the end": func() error { return firstError(l.Records(end)) },
			"Batches":            func() error { return firstError(l.Batches(0)) },
			"Batches at the end": func() error { return firstError(l.Batches(end)) },
			"Held":               func() error { return firstError(l.Held(0)) },
			"Follow":             func() error { return firstError(l.Follow(t.Context(), end)) },
		} {
			require.ErrorIs(t, call(), ErrClosed, name)
		}
	}
}

// A disk takes a while to open and read files. A read during which the log is closed or removed
// either reads everything or returns ErrClosed.
func TestReadsUnderWayWhenTheLogIsClosedAreRefused(t *testing.T) {
	for name, call := range map[string]func(l *Log) error{
		"Read":               func(l *Log) error { _, err := l.Read(nil, 0, 100); return err },
		"ReadUpTo":           func(l *Log) error { _, err := l.ReadUpTo(nil, 3, 100, 4); return err },
		"OffsetForTimestamp": func(l *Log) error { _, _, err := l.OffsetForTimestamp(time.UnixMilli(1004)); return err },
		"MaxTimestampOffset": func(l *Log) error { _, _, err := l.MaxTimestampOffset(); return err },
		"Records":            func(l *Log) error { return firstError(l.Records(0)) },
		"Batches":            func(l *Log) error { return firstError(l.Batches(0)) },
		"Held":               func(l *Log) error { return firstError(l.Held(0)) },
		"AbortedTxns": func(l *Log) error {
			ts, err := l.AbortedTxns(0, 100)
			if err == nil && len(ts) != 5 {
				return fmt.Errorf("%d aborted transactions", len(ts))
			}
			return err
		},
	} {
		told := 0
		for _, end := range []func(*Log) error{(*Log).Close, (*Log).Remove} {
			for at := range 24 {
				synctest.Test(t, func(t *testing.T) {
					disk := vfs.Mem()
					l := openMem(t, disk)
					for i := range int64(5) {
						appendAt(t, l, 1000+i, 1000+i)
						aborted := segment.AbortedTxn{FirstOffset: 2 * i, LastOffset: 2*i + 1, LastStableOffset: 2*i + 2}
						require.NoError(t, l.AppendAborted(aborted))
						require.NoError(t, l.Roll())
					}
					require.NoError(t, l.Close())
					l = openMem(t, disk)
					disk.Inject(vfs.Fault{Ops: vfs.OpOpen | vfs.OpRead, Delay: 10 * time.Millisecond, Times: vfs.Always})
					ended := make(chan error, 1)
					go func() {
						time.Sleep(time.Duration(at)*5*time.Millisecond + time.Millisecond)
						ended <- end(l)
					}()
					if err := call(l); err != nil {
						require.ErrorIs(t, err, ErrClosed, name)
						told++
					}
					require.NoError(t, <-ended)
				})
			}
		}
		require.NotZero(t, told, name)
	}
}

// firstError walks to the first error, which must be the last yielded value.
func firstError[T any](seq func(func(T, error) bool)) (err error) {
	seq(func(_ T, e error) bool {
		if err != nil {
			err = errors.Join(err, errors.New("something follows"))
		}
		err = e
		return true
	})
	return err
}

// A power cut removed all batches of the last segment, and left some of its index entries.
func TestEntriesOfBatchesThatWereLostDoNotComeBackInAnEmptySegment(t *testing.T) {
	t.Parallel()
	lost := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
	disk := vfs.Mem()
	cfg := Config{Sync: SyncNever, IndexIntervalBytes: 1}
	l := openClean(t, disk, cfg)
	appendAt(t, l, 5)
	require.NoError(t, l.Roll())
	require.NoError(t, l.Sync())
	for _, ms := range []int64{10, 20, 30, 40} {
		appendAt(t, l, ms)
	}
	after := disk.CrashWith(lost)
	last := l.Segments()[1].BaseOffset
	require.NoError(t, l.Close())
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		p, err := vfs.ReadFile(disk, filePath(bedDir, last, suffix))
		require.NoError(t, err)
		require.NotEmpty(t, p)
		require.NoError(t, vfs.WriteFile(after, filePath(bedDir, last, suffix), p))
	}

	l = openClean(t, after, cfg)
	require.EqualValues(t, 1, l.EndOffset())
	for _, ms := range []int64{10, 90, 20, 40} {
		appendAt(t, l, ms)
	}
	for range 2 {
		offset, ts, err := l.MaxTimestampOffset()
		require.NoError(t, err)
		require.Equal(t, []int64{2, 90}, []int64{offset, ts})
		offset, _, err = l.OffsetForTimestamp(time.UnixMilli(41))
		require.NoError(t, err)
		require.EqualValues(t, 2, offset)
		require.NoError(t, l.Close())
		after = after.CrashWith(lost)
		l = openClean(t, after, cfg)
		require.True(t, l.Recovery().Clean)
	}
	require.NoError(t, l.Close())
}
