package log

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Retention removes old segments although no new segment, or no index, can be written. It removes
// at least the closed ones.
func TestRetentionRemovesSegmentsOfAFullDisk(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{"no new segment": "*" + segment.LogSuffix, "no index": "*index"} {
		for _, closed := range []int{2, 0} {
			m := vfs.Mem()
			cfg := Config{FS: m, RetentionAge: time.Hour}
			l, err := Open("log", cfg)
			require.NoError(t, err)
			for range closed {
				fillOld(t, l)
				require.NoError(t, l.Roll())
			}
			fillOld(t, l)
			free := m.Inject(vfs.Fault{Ops: vfs.OpCreate | vfs.OpWrite, Pattern: pattern, Times: vfs.Always, Err: syscall.ENOSPC})
			_, err = l.Clean(t.Context())
			switch {
			case name == "no index":
				require.NoError(t, err)
				require.Equal(t, l.EndOffset(), l.StartOffset(), "all of it is too old")
			case closed == 0:
				require.ErrorIs(t, err, syscall.ENOSPC)
			default:
				require.NoError(t, err)
				require.Len(t, l.Segments(), 1)
			}
			free()
			_, err = l.Clean(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(3*(closed+1)), l.StartOffset())
			require.NoError(t, l.Close())
		}
	}
}

func fillOld(t *testing.T, l *Log) {
	t.Helper()
	for range 3 {
		_, err := l.Append(t.Context(), record.Record{Value: make([]byte, 8192), Timestamp: time.Now().Add(-2 * time.Hour)})
		require.NoError(t, err)
	}
}

// A log is rolled and closed without room for its indexes. It finds the same offsets by time as
// before, also after it is opened again.
func TestIndexesThatAFullDiskHadNoRoomForAreMadeAnew(t *testing.T) {
	t.Parallel()
	m := vfs.Mem()
	l, err := Open("log", Config{FS: m})
	require.NoError(t, err)
	first := time.UnixMilli(1_700_000_000_000)
	for i := range 20 {
		_, err := l.Append(t.Context(), record.Record{Value: make([]byte, 8192), Timestamp: first.Add(time.Duration(i) * time.Second)})
		require.NoError(t, err)
	}
	free := m.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*index", Times: vfs.Always, Err: syscall.ENOSPC, Keep: 24})
	look := func() {
		t.Helper()
		offset, err := l.OffsetAt(first.Add(15 * time.Second))
		require.NoError(t, err)
		require.Equal(t, int64(15), offset)
		offset, _, err = l.MaxTimestampOffset()
		require.NoError(t, err)
		require.Equal(t, int64(19), offset)
	}
	require.NoError(t, l.Roll())
	look()
	require.NoError(t, l.Close())
	for range 2 {
		l, err = Open("log", Config{FS: m})
		require.NoError(t, err)
		require.True(t, l.Recovery().Clean)
		look()
		require.NoError(t, l.Close())
		free()
	}
}

// After a kill, a directory gets the marks of a clean shutdown only if each of its logs was
// opened.
func TestDirectoryIsNotLeftAsInOrderWhileLogsWereNotOpened(t *testing.T) {
	t.Parallel()
	m := vfs.Mem()
	open := func(fsys vfs.FS, names ...string) *Directory {
		d, err := OpenDirectory("data", DirectoryConfig{FS: fsys})
		require.NoError(t, err)
		for _, name := range names {
			l, err := Open("data/"+name, Config{FS: fsys, Dir: d})
			require.NoError(t, err)
			if l.EndOffset() == 0 {
				fill(t, l, 1)
			}
			require.NoError(t, l.Close())
		}
		return d
	}
	inOrder := func(fsys vfs.FS) bool {
		return exists(t, fsys, "../data/"+closedFile) && exists(t, fsys, "../data/"+cleanShutdownFile)
	}
	d := open(m, "a-0", "b-0")
	killed := m.Kill()
	require.NoError(t, d.Close())
	require.NoError(t, open(killed, "a-0").Close())
	require.False(t, inOrder(killed), "b-0 may have a torn end")
	require.NoError(t, open(killed, "a-0", "b-0").Close())
	require.True(t, inOrder(killed))
	require.NoError(t, open(killed).Close())
	require.True(t, inOrder(killed), "nobody has changed anything since")
}
