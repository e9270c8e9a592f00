package log

import (
	"errors"
	"io/fs"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// replicate appends one record at an offset, as a follower does.
func replicate(l *Log, offset int64) error {
	var b record.Builder
	b.AppendKV(1, nil, []byte("v"), nil)
	p := b.Bytes()
	record.SetBaseOffset(p, offset)
	record.SetLeaderEpoch(p, 0)
	done := make(chan error, 1)
	l.Submit(&Append{Batch: p, KeepOffsets: true, Done: func(a *Append) { done <- a.Err }})
	return <-done
}

// TestOffsetsOutOfRangeChangeNothing passes offsets that no log can have. After each call the log
// is unchanged, and it opens again.
func TestOffsetsOutOfRangeChangeNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *Log) error{
		"truncate below zero":        func(l *Log) error { return l.TruncateTo(-1) },
		"truncate far below zero":    func(l *Log) error { return l.TruncateTo(math.MinInt64) },
		"restart below zero":         func(l *Log) error { return l.TruncateFully(-1) },
		"restart at the last offset": func(l *Log) error { return l.TruncateFully(math.MaxInt64) },
		"append at the last offset":  func(l *Log) error { return replicate(l, math.MaxInt64) },
		"append one before it":       func(l *Log) error { return replicate(l, math.MaxInt64-1) },
		"delete above the end":       func(l *Log) error { return l.DeleteRecords(math.MaxInt64) },
		"snapshot below zero":        func(l *Log) error { return l.WriteSnapshot(-1, []byte("s")) },
	} {
		for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
			disk := vfs.Mem()
			l, err := Open("log", Config{FS: disk, Sync: policy})
			require.NoError(t, err)
			fill(t, l, 3)
			require.NoError(t, l.DeleteRecords(1))
			require.ErrorIs(t, change(l), ErrOffsetOutOfRange, name)
			require.NoError(t, l.Err(), name)
			require.EqualValues(t, 1, l.StartOffset(), name)
			require.EqualValues(t, 3, l.EndOffset(), name)
			fill(t, l, 1)
			require.Len(t, values(t, l), 3, name)
			l2, err := Open("log", Config{FS: disk.Kill()})
			require.NoError(t, err, name)
			require.Len(t, values(t, l2), 3, name)
			require.NoError(t, l2.Close())
			require.NoError(t, l.Close())
		}
	}
}

// TestLargestOffsets uses the largest offsets of a log.
func TestLargestOffsets(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	const last = math.MaxInt64 - 2
	require.NoError(t, l.TruncateFully(last-1))
	require.NoError(t, replicate(l, last-1))
	require.NoError(t, replicate(l, last))
	require.ErrorIs(t, replicate(l, last+1), ErrOffsetOutOfRange)
	_, err = l.Append(t.Context(), record.Record{Value: []byte("v")})
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	require.NoError(t, l.Reconfigure(Config{Sync: SyncNever}))
	_, err = l.Append(t.Context(), record.Record{Value: []byte("v")})
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	require.Len(t, values(t, l), 2)
	require.NoError(t, l.DeleteRecords(last+1))
	require.NoError(t, l.Close())

	l, err = Open("log", Config{FS: disk.Kill()})
	require.NoError(t, err)
	require.EqualValues(t, last+1, l.StartOffset())
	require.EqualValues(t, last+1, l.EndOffset())
	require.NoError(t, l.TruncateFully(0))
	fill(t, l, 1)
	require.NoError(t, l.Close())
}

// TestRollBehindAGapThatFailsIsNoEnd has a follower that skips more offsets than fit into a
// segment, while the disk is full.
func TestRollBehindAGapThatFailsIsNoEnd(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.log", "strata.state*"} {
		for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
			disk := vfs.Mem()
			l, err := Open("log", Config{FS: disk, Sync: policy})
			require.NoError(t, err)
			require.NoError(t, l.SetLeaderEpoch(0))
			if pattern == "strata.state*" { // so that the roll finds the full disk
				require.NoError(t, l.TruncateFully(0))
			}
			full := disk.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: pattern, Times: vfs.Always, Err: syscall.ENOSPC})
			require.ErrorIs(t, replicate(l, 5<<32), syscall.ENOSPC)
			full()
			require.Zero(t, l.EndOffset())
			for i := range 3 {
				require.NoError(t, replicate(l, int64(i)), "%s %v", pattern, policy)
			}
			require.NoError(t, replicate(l, 5<<32))
			require.NoError(t, l.TruncateTo(3))
			require.NoError(t, l.Close())
			l, err = Open("log", Config{FS: disk})
			require.NoError(t, err)
			require.EqualValues(t, 3, l.EndOffset())
			require.Len(t, values(t, l), 3)
			require.NoError(t, l.Close())
		}
	}
}

// TestFailedRollLeavesNoSegmentBehind has a roll that fails after it created the file of the next
// segment. The log never reaches that offset again. The file is removed with the next state, and
// recovery has nothing to remove.
func TestFailedRollLeavesNoSegmentBehind(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncOnAck})
	require.NoError(t, err)
	require.NoError(t, replicate(l, 0))
	full := disk.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "strata.state*", Times: vfs.Always, Err: syscall.ENOSPC})
	require.ErrorIs(t, replicate(l, 5<<32), syscall.ENOSPC)
	full()
	stray := filePath("log", 5<<32, segment.LogSuffix)
	_, err = disk.Stat(stray)
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, replicate(l, int64(1+i)))
	}
	_, err = disk.Stat(stray)
	require.ErrorIs(t, err, fs.ErrNotExist)
	l2, err := Open("log", Config{FS: disk.Kill()})
	require.NoError(t, err)
	require.Empty(t, l2.Recovery().SetAside)
	require.EqualValues(t, 4, l2.EndOffset())
	require.Len(t, values(t, l2), 4)
	require.NoError(t, l2.Close())
	require.NoError(t, l.Close())
}

// TestFailedSyncOfTheDirectoryIsSticky: the directory may or may not have the new segment, and its
// next sync may succeed anyway.
func TestFailedSyncOfTheDirectoryIsSticky(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(l *Log) error{
		"first append": func(l *Log) error { _, err := l.Append(t.Context(), record.Record{Value: []byte("v")}); return err },
		"roll":         func(l *Log) error { return l.Roll() },
	} {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk, Sync: SyncOnAck})
		require.NoError(t, err)
		if name == "roll" {
			fill(t, l, 1)
		}
		disk.Inject(vfs.Fault{Ops: vfs.OpSyncDir, Pattern: "log", Err: syscall.EIO})
		require.ErrorIs(t, do(l), syscall.EIO, name)
		_, err = l.Append(t.Context(), record.Record{Value: []byte("v")})
		require.ErrorIs(t, err, syscall.EIO, name)
		require.ErrorIs(t, l.Err(), syscall.EIO, name)
		require.ErrorIs(t, l.Sync(), syscall.EIO, name)
		require.Error(t, errors.Join(l.Close()), name)
	}
}

// TestAppendThatFitsIsTakenAlthoughNoSpaceCanBeReserved has a disk with room for the append, but
// not for the space that is reserved ahead.
func TestAppendThatFitsIsTakenAlthoughNoSpaceCanBeReserved(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncOnAck})
	require.NoError(t, err)
	full := disk.Inject(vfs.Fault{Ops: vfs.OpAllocate, Times: vfs.Always, Err: syscall.ENOSPC})
	fill(t, l, 3)
	full()
	fill(t, l, 3)
	require.Len(t, values(t, l), 6)
	require.NoError(t, l.Close())
	l, err = Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.True(t, l.Recovery().Clean)
	require.Len(t, values(t, l), 6)
	require.NoError(t, l.Close())
}

func TestNoBatchIsLargerThanASegment(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		l, err := Open("log", Config{FS: vfs.Mem(), Sync: policy, SegmentBytes: 4096})
		require.NoError(t, err)
		fill(t, l, 1)
		_, err = l.Append(t.Context(), record.Record{Value: make([]byte, 8192)})
		require.ErrorIs(t, err, ErrRecordTooLarge, policy)
		require.NoError(t, l.Roll())
		_, err = l.Append(t.Context(), record.Record{Value: make([]byte, 8192)})
		require.ErrorIs(t, err, ErrRecordTooLarge, policy)
		require.NoError(t, l.Close())
	}
}

func TestClosedLogAnswersNothing(t *testing.T) {
	t.Parallel()
	l, err := Open("log", Config{FS: vfs.Mem()})
	require.NoError(t, err)
	fill(t, l, 3)
	require.NoError(t, l.Close())
	for name, err := range map[string]error{
		"Read":               second(l.Read(nil, 0, 1<<20)),
		"ReadUpTo":           second(l.ReadUpTo(nil, 0, 1<<20, 3)),
		"OffsetForTimestamp": third(l.OffsetForTimestamp(time.UnixMilli(0))),
		"MaxTimestampOffset": third(l.MaxTimestampOffset()),
		"AbortedTxns":        second(l.AbortedTxns(0, 3)),
		"WriteSnapshot":      l.WriteSnapshot(3, []byte("s")),
		"RemoveSnapshot":     l.RemoveSnapshot(3),
		"Sync":               l.Sync(),
		"Roll":               l.Roll(),
		"TruncateTo":         l.TruncateTo(1),
		"DeleteRecords":      l.DeleteRecords(1),
		"Reconfigure":        l.Reconfigure(Config{}),
		"AppendAborted":      l.AppendAborted(segment.AbortedTxn{LastOffset: 2}),
		"ResetAborted":       l.ResetAborted(0, nil),
		"Append":             second(l.Append(t.Context(), record.Record{})),
		"Clean":              second(l.Clean(t.Context())),
		"Retain":             second(l.Retain(t.Context())),
		"Cut":                second(l.Cut()),
		"SetLeaderEpoch":     l.SetLeaderEpoch(9),
		"LeadInEpoch":        l.LeadInEpoch(9),
		"TruncateFully":      l.TruncateFully(3),
		"SyncRecords":        l.SyncRecords(),
		"OffsetAt":           second(l.OffsetAt(time.UnixMilli(0))),
		"ReadSnapshot":       second(l.ReadSnapshot(3)),
		"SnapshotFiles":      second(l.SnapshotFiles()),
	} {
		require.ErrorIs(t, err, ErrClosed, name)
	}
	require.Empty(t, l.aborts.recent, "nothing was added")
	for _, err := range l.Held(0) {
		require.ErrorIs(t, err, ErrClosed)
	}
	for _, err := range l.Follow(t.Context(), 0) {
		require.ErrorIs(t, err, ErrClosed)
	}
	for _, err := range l.Batches(0) {
		require.ErrorIs(t, err, ErrClosed)
	}
	for _, err := range l.Records(0) {
		require.ErrorIs(t, err, ErrClosed)
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

// TestCrashAtEveryStepOfACutInsideAGap truncates to an offset without a record before it in the
// segment.
func TestCrashAtEveryStepOfACutInsideAGap(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.NoError(t, replicate(l, 0))
	require.NoError(t, l.Roll())
	require.NoError(t, replicate(l, 100))
	crash := func(vfs.Event) []*vfs.MemFS {
		return []*vfs.MemFS{
			disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}),
			disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}),
		}
	}
	cuts := moments(disk, crash, func() { require.NoError(t, l.TruncateTo(50)) })
	for _, left := range crash(vfs.Event{}) { // after the truncation
		cuts = append(cuts, moment{disk: left})
	}
	require.EqualValues(t, 50, l.EndOffset())
	require.EqualValues(t, 50, l.DurableOffset())
	require.Greater(t, len(cuts), 2)
	for i, cut := range cuts {
		l, err := Open("log", Config{FS: cut.disk})
		require.NoError(t, err, "state %d of %d", i, len(cuts))
		require.NotEmpty(t, values(t, l))
		require.NoError(t, l.Close())
	}
	require.NoError(t, l.Close())
}

// TestAppendThatWaitedWhileTheLogBrokeIsRefused has an append in the queue while a roll fails to
// sync the directory.
func TestAppendThatWaitedWhileTheLogBrokeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk, Sync: SyncNever})
		require.NoError(t, err)
		fill(t, l, 1)
		// its names are durable: the roll's own sync of the directory fails
		require.NoError(t, l.Sync())
		disk.Inject(vfs.Fault{Ops: vfs.OpSyncDir, Pattern: "log", Err: syscall.EIO})
		disk.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "*.log", Delay: time.Second})
		rolled := make(chan error, 1)
		go func() { rolled <- l.Roll() }()
		synctest.Wait()
		_, err = l.Append(t.Context(), record.Record{Value: []byte("v")})
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorIs(t, <-rolled, syscall.EIO)
		require.EqualValues(t, 1, l.EndOffset())
		require.Error(t, l.Close())
	})
}
