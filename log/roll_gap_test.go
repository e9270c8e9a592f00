package log

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// A follower of a compacted leader begins a segment for a batch behind a gap, and fails to write
// it. Another leader still has the records of the gap. They can be appended, also after a crash:
// no offset of the gap counts as used.
func TestGapBeforeASegmentThatCouldNotBeWrittenIsStillFree(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, reopen := range []bool{false, true} {
			disk := vfs.Mem()
			cfg := Config{FS: disk, Sync: policy, SegmentBytes: 160, RetentionAge: Unlimited} // two batches
			l, err := Open("log", cfg)
			require.NoError(t, err)
			require.NoError(t, replicate(l, 0))
			require.NoError(t, replicate(l, 1))
			heal := disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.ENOSPC})
			require.ErrorIs(t, replicate(l, 7), syscall.ENOSPC)
			heal()
			require.Len(t, l.Segments(), 2, "one was begun")
			require.EqualValues(t, 2, l.EndOffset())
			if reopen {
				left := disk.Kill()
				require.NoError(t, l.Close())
				cfg.FS = left
				l, err = Open("log", cfg)
				require.NoError(t, err)
				require.EqualValues(t, 2, l.EndOffset(), "%v", policy)
			}
			want := []int64{0, 1, 3, 5, 7}
			for _, offset := range want[2:] {
				require.NoError(t, replicate(l, offset), "%v, reopened %v", policy, reopen)
			}
			require.NoError(t, l.Close())
			l, err = Open("log", cfg)
			require.NoError(t, err)
			require.Equal(t, want, offsetsOf(t, l))
			require.NoError(t, l.Close())
		}
	}
}

// Only a gap that the indexes of a segment at the log's end cannot express is left before the
// segment.
func TestSegmentBeginsWhereTheLogEndsWhateverGapFollows(t *testing.T) {
	t.Parallel()
	const most = 1<<31 - 1
	for _, c := range []struct{ offset, base int64 }{{2, 2}, {9, 2}, {2 + most, 2}, {3 + most, 3 + most}} {
		l, err := Open("log", Config{FS: vfs.Mem(), SegmentBytes: 160})
		require.NoError(t, err)
		for _, offset := range []int64{0, 1, c.offset} {
			require.NoError(t, replicate(l, offset))
		}
		require.Len(t, l.Segments(), 2)
		require.Equal(t, c.base, l.Segments()[1].BaseOffset, fmt.Sprint(c.offset))
		require.Equal(t, []int64{0, 1, c.offset}, offsetsOf(t, l))
		require.NoError(t, l.Close())
	}
}

// offsetsOf reads a log from its start.
func offsetsOf(t *testing.T, l *Log) (offsets []int64) {
	for r, err := range l.Records(l.StartOffset()) {
		require.NoError(t, err)
		offsets = append(offsets, r.Offset)
	}
	return offsets
}
