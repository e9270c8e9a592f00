package log

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func incarnationOf(t *testing.T, fsys vfs.FS, dir string) uint64 {
	t.Helper()
	st, known, err := readState(fsys, dir)
	require.NoError(t, err)
	require.True(t, known)
	require.NotZero(t, st.Incarnation)
	return st.Incarnation
}

// The incarnation shows an owner of data about a log elsewhere whether it is still the same log.
func TestIncarnationChangesOnlyWhenTheLogBeginsAnew(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	open := func() *Log {
		l, err := Open("log", Config{FS: disk, SegmentBytes: 1000})
		require.NoError(t, err)
		return l
	}
	l := open()
	fillLog(t, l, 40)
	first := incarnationOf(t, disk, "log")
	require.NoError(t, l.Roll())
	require.NoError(t, l.TruncateTo(20))
	require.NoError(t, l.DeleteRecords(10))
	require.NoError(t, l.Close())
	require.Equal(t, first, incarnationOf(t, disk, "log"))
	l = open()
	fillLog(t, l, 5)
	require.Equal(t, first, incarnationOf(t, disk, "log"), "opened again")
	require.NoError(t, l.TruncateFully(100))
	second := incarnationOf(t, disk, "log")
	require.NotEqual(t, first, second, "begun anew")
	require.NoError(t, l.Close())
	l = open()
	fillLog(t, l, 5)
	require.Equal(t, second, incarnationOf(t, disk, "log"))
	require.NoError(t, l.Remove())
	l = open()
	fillLog(t, l, 5)
	require.NotContains(t, []uint64{first, second}, incarnationOf(t, disk, "log"), "created again")
	require.NoError(t, l.Close())
}

func fillLog(t *testing.T, l *Log, n int) {
	t.Helper()
	for range n {
		_, err := l.Append(t.Context(), record.Record{Value: []byte("value")})
		require.NoError(t, err)
	}
}
