package log

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// appendWords appends n records, each as its own batch, all of one size.
func appendWords(t *testing.T, l *Log, word string, n int) {
	t.Helper()
	for range n {
		_, err := l.Append(t.Context(), record.Record{Value: []byte(word), Timestamp: time.UnixMilli(1000)})
		require.NoError(t, err)
	}
}

// A viewChange removes records from a log that a reader has open, and appends others of the same
// size.
type viewChange struct {
	name string
	do   func(t *testing.T, disk *vfs.MemFS, l *Log, cfg Config) *Log
}

var viewChanges = []viewChange{
	{"truncation in the active segment", func(t *testing.T, _ *vfs.MemFS, l *Log, _ Config) *Log {
		require.NoError(t, l.TruncateTo(17))
		return l
	}},
	{"truncation in a closed segment", func(t *testing.T, _ *vfs.MemFS, l *Log, _ Config) *Log {
		require.NoError(t, l.TruncateTo(2))
		return l
	}},
	{"two truncations", func(t *testing.T, _ *vfs.MemFS, l *Log, _ Config) *Log {
		require.NoError(t, l.TruncateTo(18))
		appendWords(t, l, "new", 1)
		require.NoError(t, l.TruncateTo(12))
		return l
	}},
	{"truncation, and the log opened again", func(t *testing.T, _ *vfs.MemFS, l *Log, cfg Config) *Log {
		require.NoError(t, l.TruncateTo(17))
		require.NoError(t, l.Close())
		l, err := Open("log", cfg)
		require.NoError(t, err)
		return l
	}},
	{"begun anew", func(t *testing.T, _ *vfs.MemFS, l *Log, _ Config) *Log {
		require.NoError(t, l.TruncateTo(15))
		require.NoError(t, l.TruncateFully(0))
		return l
	}},
	{"created again", func(t *testing.T, _ *vfs.MemFS, l *Log, cfg Config) *Log {
		require.NoError(t, l.TruncateTo(15))
		appendWords(t, l, "new", 5)
		require.NoError(t, l.Remove())
		l, err := Open("log", cfg)
		require.NoError(t, err)
		return l
	}},
}

// A reader gets only records from the time of its open. The writer has truncated the log since,
// and has written batches of the same sizes, with the same offsets and epochs, at the same
// positions.
func TestReadOnlyLogNeverShowsWhatTookThePlaceOfItsRecords(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, change := range viewChanges {
			t.Run(fmt.Sprint(policy, "/", change.name), func(t *testing.T) {
				t.Parallel()
				disk := vfs.Mem()
				cfg := Config{FS: disk, Sync: policy, SegmentBytes: 800}
				l, err := Open("log", cfg)
				require.NoError(t, err)
				appendWords(t, l, "old", 20)
				require.Greater(t, len(l.Segments()), 1)
				ro, err := OpenReadOnly("log", Config{FS: disk})
				require.NoError(t, err)
				require.Len(t, values(t, ro), 20)
				var looks atomic.Int64
				var wrong atomic.Pointer[error] // segments are synced by other goroutines, too
				stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
					if e.Op&vfs.OpChange != 0 { // a read changes nothing, so this does not recur
						looks.Add(1)
						if err := oldOrChanged(ro); err != nil {
							err = fmt.Errorf("before %s: %w", e, err)
							wrong.Store(&err)
						}
					}
				}})
				l = change.do(t, disk, l, cfg)
				appendWords(t, l, "new", int(20-l.EndOffset()))
				stop()
				require.Greater(t, looks.Load(), int64(10))
				if err := wrong.Load(); err != nil {
					require.NoError(t, *err)
				}
				require.EqualValues(t, 20, l.EndOffset())
				everyReadSaysChanged(t, ro)
				require.NoError(t, ro.Close())

				ro, err = OpenReadOnly("log", Config{FS: disk})
				require.NoError(t, err)
				require.Equal(t, values(t, l), values(t, ro), "opened again, as it is now")
				require.NoError(t, errors.Join(ro.Close(), l.Close()))
			})
		}
	}
}

// oldOrChanged reads the whole log. It returns an error for any result except the records at the
// open and ErrChanged.
func oldOrChanged(ro *Log) error {
	n := 0
	for r, err := range ro.Records(0) {
		switch {
		case errors.Is(err, ErrChanged):
			return nil
		case err != nil:
			return err
		case string(r.Value) != "old":
			return fmt.Errorf("offset %d has %q", r.Offset, r.Value)
		}
		n++
	}
	if n != 20 {
		return fmt.Errorf("%d records", n)
	}
	return nil
}

// everyReadSaysChanged makes every call that reads files, and requires ErrChanged.
func everyReadSaysChanged(t *testing.T, ro *Log) {
	_, err := ro.Read(nil, 0, 1<<20)
	require.ErrorIs(t, err, ErrChanged, "Read")
	got, err := ro.Read([]byte("x"), 17, 1<<20)
	require.ErrorIs(t, err, ErrChanged, "Read")
	require.Equal(t, "x", string(got), "nothing is handed out")
	_, err = ro.ReadUpTo(nil, 17, 1<<20, 20)
	require.ErrorIs(t, err, ErrChanged, "ReadUpTo")
	for _, err := range ro.Records(17) {
		require.ErrorIs(t, err, ErrChanged, "Records")
	}
	for _, err := range ro.Batches(17) {
		require.ErrorIs(t, err, ErrChanged, "Batches")
	}
	for _, err := range ro.Held(0) {
		require.ErrorIs(t, err, ErrChanged, "Held")
	}
	for _, err := range ro.Follow(t.Context(), 17) {
		require.ErrorIs(t, err, ErrChanged, "Follow")
	}
	_, _, err = ro.OffsetForTimestamp(time.UnixMilli(1000))
	require.ErrorIs(t, err, ErrChanged, "OffsetForTimestamp")
	_, err = ro.OffsetAt(time.UnixMilli(1000))
	require.ErrorIs(t, err, ErrChanged, "OffsetAt")
	_, _, err = ro.MaxTimestampOffset()
	require.ErrorIs(t, err, ErrChanged, "MaxTimestampOffset")
	_, err = ro.ReadSnapshot(20)
	require.ErrorIs(t, err, ErrChanged, "ReadSnapshot")
	_, err = ro.SnapshotFiles()
	require.ErrorIs(t, err, ErrChanged, "SnapshotFiles")
	for _, s := range ro.Segments() {
		require.Zero(t, s.MaxTimestamp)
	}
}

// A failed write is truncated. A reader in between has seen batches that were never acknowledged.
// Their offsets and bytes are used again: by this writer, or by the next one if the truncation
// failed.
func TestReadOnlyLogNeverShowsWhatTookThePlaceOfAFailedWrite(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, cutBack := range []bool{true, false} {
			for _, tries := range []int{1, 2} { // tries of the next open; all but the last one fail
				disk := vfs.Mem()
				cfg := Config{FS: disk, Sync: policy}
				l, err := Open("log", cfg)
				require.NoError(t, err)
				appendWords(t, l, "old", 19)
				disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.EIO, Keep: math.MaxInt32})
				var ro *Log
				stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
					if e.Op == vfs.OpTruncate && strings.HasSuffix(e.Name, ".log") && ro == nil {
						ro, err = OpenReadOnly("log", Config{FS: disk})
						require.NoError(t, err)
						require.Len(t, values(t, ro), 20, "the one that is about to be taken back, too")
					}
				}})
				heal := func() {}
				if !cutBack {
					heal = disk.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Times: vfs.Always, Err: syscall.EIO})
				}
				_, err = l.Append(t.Context(), record.Record{Value: []byte("old"), Timestamp: time.UnixMilli(1000)})
				require.ErrorIs(t, err, syscall.EIO)
				stop()
				require.NotNil(t, ro)
				if !cutBack {
					require.Error(t, l.Close())
					heal()
					l = reopenTrying(t, disk, cfg, tries)
				}
				appendWords(t, l, "new", 1)
				require.EqualValues(t, 20, l.EndOffset())
				everyReadSaysChanged(t, ro)
				require.NoError(t, errors.Join(ro.Close(), l.Close()))
			}
		}
	}
}

// reopenTrying opens a log that had failed. All but the last of the tries fail when they remove
// the suspect file.
func reopenTrying(t *testing.T, disk *vfs.MemFS, cfg Config, tries int) *Log {
	for range tries - 1 {
		disk.Inject(vfs.Fault{Ops: vfs.OpRemove, Pattern: suspectFile, Err: syscall.EIO})
		_, err := Open("log", cfg)
		require.ErrorIs(t, err, syscall.EIO)
	}
	if tries > 1 { // and an open that succeeds, whose Close cannot write the state
		l, err := Open("log", cfg)
		require.NoError(t, err)
		heal := disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: stateFile + ".tmp", Times: vfs.Always, Err: syscall.EIO})
		require.ErrorIs(t, l.Close(), syscall.EIO)
		heal()
	}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	return l
}

// meetAtAnyCall opens a log read-only over and over, each time with a change by its writer before
// another call of the file system. make returns the log. Nothing changes after the open has
// returned.
func meetAtAnyCall(t *testing.T, make func(t *testing.T, disk *vfs.MemFS) *Log, change func(l *Log)) {
	for n := 1; ; n++ {
		disk := vfs.Mem()
		l := make(t, disk)
		before := logDump(t, l)
		reader := vfs.Faulty(disk)
		calls, changed := 0, false
		stop := reader.Observe(vfs.Observer{Before: func(vfs.Event) {
			if calls++; calls == n {
				changed = true
				change(l)
			}
		}})
		ro, err := OpenReadOnly("log", Config{FS: reader})
		stop()
		require.NoError(t, err, "call %d", n)
		if !changed {
			require.NoError(t, errors.Join(ro.Close(), l.Close()))
			require.Greater(t, n, 15)
			return
		}
		after := logDump(t, l)
		require.NotEqual(t, before, after)
		for _, err := range ro.Records(0) {
			if errors.Is(err, ErrChanged) { // the last look at the state had begun
				require.Less(t, calls-n, 4, "call %d of %d", n, calls)
				break
			}
			require.Contains(t, []string{before, after}, logDump(t, ro), "call %d of %d", n, calls)
			break
		}
		require.NoError(t, errors.Join(ro.Close(), l.Close()))
	}
}

func TestReadOnlyOpenMeetsATruncationAtAnyCall(t *testing.T) {
	t.Parallel()
	for _, to := range []int64{17, 3} {
		meetAtAnyCall(t, func(t *testing.T, disk *vfs.MemFS) *Log {
			l, err := Open("log", Config{FS: disk, SegmentBytes: 800})
			require.NoError(t, err)
			appendWords(t, l, "old", 20)
			return l
		}, func(l *Log) {
			require.NoError(t, l.TruncateTo(to))
			appendWords(t, l, "new", int(20-to))
		})
	}
}

func TestReadOnlyOpenMeetsACompactionAtAnyCall(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", 120)
	meetAtAnyCall(t, func(t *testing.T, disk *vfs.MemFS) *Log {
		cfg := compacting
		// each segment is compacted by itself and keeps its name
		cfg.FS, cfg.Sync, cfg.SegmentBytes = disk, SyncNever, 700
		l, err := Open("log", cfg)
		require.NoError(t, err)
		for i := range 3 {
			appendKV(t, l, "a=1"+pad, "b=1"+pad, "c=1"+pad, fmt.Sprint("d", i, "=1"+pad))
			require.NoError(t, l.Roll())
		}
		appendKV(t, l, "a=2"+pad, "b=2"+pad, "c=2"+pad)
		return l
	}, func(l *Log) {
		require.NoError(t, l.Roll())
		appendKV(t, l, "a=3"+pad, "b=3"+pad, "e=3"+pad)
		require.NoError(t, l.Roll())
		appendKV(t, l, "f=3"+pad)
		names := len(l.Segments())
		clean(t, l)
		require.Len(t, l.Segments(), names)
	})
}

// The only segment that the state names is closed, and compacted under its name. The state that
// the reader found does not describe that file any more.
func TestReadOnlyOpenMeetsTheCompactionOfWhatWasActiveAtAnyCall(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", 120)
	meetAtAnyCall(t, func(t *testing.T, disk *vfs.MemFS) *Log {
		cfg := compacting
		cfg.FS, cfg.Sync, cfg.SegmentBytes = disk, SyncNever, 700
		l, err := Open("log", cfg)
		require.NoError(t, err)
		appendKV(t, l, "a=1"+pad, "b=1"+pad)
		appendKV(t, l, "c=1"+pad, "d=1"+pad)
		return l
	}, func(l *Log) {
		require.NoError(t, l.Roll())
		appendKV(t, l, "a=2"+pad, "c=2"+pad)
		require.NoError(t, l.Roll())
		appendKV(t, l, "e=2"+pad)
		clean(t, l)
		require.Len(t, l.Segments(), 3)
	})
}

// Compaction makes a segment larger: tombstones that it keeps get the time of their removal.
func TestReadOnlyOpenMeetsASegmentThatGrowsAtAnyCall(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", 120)
	meetAtAnyCall(t, func(t *testing.T, disk *vfs.MemFS) *Log {
		cfg := compacting
		cfg.FS, cfg.Sync, cfg.SegmentBytes = disk, SyncNever, 700
		l, err := Open("log", cfg)
		require.NoError(t, err)
		appendKV(t, l, "a=1"+pad, "b=1"+pad, "c=1"+pad, "d=1"+pad)
		require.NoError(t, l.Roll())
		var gone []string
		for i := range 60 {
			gone = append(gone, fmt.Sprintf("k%d", i))
		}
		appendKV(t, l, gone...)
		require.NoError(t, l.Roll())
		appendKV(t, l, "a=2"+pad)
		require.NoError(t, l.Roll())
		appendKV(t, l, "e=2"+pad)
		return l
	}, func(l *Log) {
		before := l.Segments()
		clean(t, l)
		after := l.Segments()
		require.Len(t, after, len(before))
		require.Greater(t, after[1].Size, before[1].Size)
	})
}
