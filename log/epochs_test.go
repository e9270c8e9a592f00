package log

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// epochLog makes a log with records of three leader epochs over several segments.
func epochLog(t *testing.T, disk vfs.FS) *Log {
	t.Helper()
	l, err := Open("log", Config{FS: disk, SegmentBytes: 1000})
	require.NoError(t, err)
	for _, epoch := range []int32{2, 5, 6} {
		require.NoError(t, l.SetLeaderEpoch(epoch))
		fill(t, l, 30)
	}
	require.Greater(t, len(l.Segments()), 3)
	return l
}

func TestMissingLeaderEpochsAreFoundInTheBatches(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, l *Log, disk *vfs.MemFS) *vfs.MemFS{
		"closed": func(t *testing.T, l *Log, disk *vfs.MemFS) *vfs.MemFS {
			require.NoError(t, l.Close())
			return disk
		},
		"killed":    func(_ *testing.T, _ *Log, disk *vfs.MemFS) *vfs.MemFS { return disk.Kill() },
		"power cut": func(_ *testing.T, _ *Log, disk *vfs.MemFS) *vfs.MemFS { return disk.Crash(1) },
		"below the start": func(t *testing.T, l *Log, disk *vfs.MemFS) *vfs.MemFS {
			require.NoError(t, l.DeleteRecords(40))
			require.NoError(t, l.Close())
			return disk
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.Mem()
			l := epochLog(t, disk)
			after := leave(t, l, disk)
			require.NoError(t, l.Close())
			want, err := vfs.ReadFile(after, "log/"+epochFile)
			require.NoError(t, err)
			require.NoError(t, after.Remove("log/"+epochFile))

			l, err = OpenReadOnly("log", Config{FS: after})
			require.NoError(t, err)
			_, end := l.Epochs().EndOffsetFor(5)
			require.EqualValues(t, 60, end)
			require.NoError(t, l.Close())
			_, err = after.Stat("log/" + epochFile)
			require.Error(t, err, "a reader changes nothing")

			l, err = Open("log", Config{FS: after})
			require.NoError(t, err)
			require.EqualValues(t, 5, l.Epochs().At(45))
			latest, ok := l.Epochs().Latest()
			require.True(t, ok)
			require.EqualValues(t, 6, latest)
			require.NoError(t, l.Close())
			got, err := vfs.ReadFile(after, "log/"+epochFile)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		})
	}
}

func TestLogWithoutLeaderEpochsIsNotWalkedForThem(t *testing.T) {
	t.Parallel()
	disk, _ := closedLog(t)
	before := disk.Count(vfs.OpRead)
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.Less(t, disk.Count(vfs.OpRead)-before, int64(5))
	require.NoError(t, l.Close())
}

// A power cut can give back what was cut off from the end, where the truncation had not reached the
// disk or space was used again: a whole batch with the right offset and CRC. That a later leader
// began there tells it from data.
func TestStaleBatchOfAnEarlierLeaderIsCut(t *testing.T) {
	t.Parallel()
	for _, rolled := range []bool{false, true} {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk})
		require.NoError(t, err)
		require.NoError(t, l.SetLeaderEpoch(3))
		fill(t, l, 10)
		if rolled {
			require.NoError(t, l.Roll())
		}
		fill(t, l, 2)
		stale, err := l.Read(nil, 10, 1<<20)
		require.NoError(t, err)
		require.NoError(t, l.TruncateTo(10))
		require.NoError(t, l.SetLeaderEpoch(4))
		want := values(t, l)

		name, pos := l.active().Path(), l.active().Size()
		after := disk.Crash(1)
		require.NoError(t, l.Close())
		f, err := after.OpenFile(name, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(stale, pos)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		l, err = Open("log", Config{FS: after})
		require.NoError(t, err)
		require.EqualValues(t, 10, l.EndOffset())
		require.EqualValues(t, len(stale), l.Recovery().CutBytes)
		require.EqualValues(t, 10, l.Recovery().CutOffset)
		fill(t, l, 1)
		require.Equal(t, append(want, "0"), values(t, l))
		require.EqualValues(t, 4, l.Epochs().At(10))
		require.NoError(t, l.Close())
	}
}
