package log

import (
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
	reads := 0
	disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpRead {
			reads++
		}
	}})
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.Less(t, reads, 5)
	require.NoError(t, l.Close())
}
