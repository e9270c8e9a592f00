package log

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A truncation to the end takes away a leader epoch that began there. What is appended next must
// not carry it: opened again, the log would call its own batches damaged.
func TestEpochThatATruncationTookIsNotStampedAnyMore(t *testing.T) {
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(1))
	_, err = l.Append(t.Context(), record.String("", "", "a"))
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(4))
	require.NoError(t, l.TruncateTo(1))
	_, err = l.Append(t.Context(), record.String("", "", "b"))
	require.NoError(t, err)

	again, err := Open("log", Config{FS: disk.Crash(1)})
	require.NoError(t, err)
	n := 0
	for _, err := range again.Records(0) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 2, n)
	require.NoError(t, again.Close())
	require.NoError(t, l.Close())
}

// A truncation that failed half-way is not done: asked for once more, it is not confirmed.
func TestTruncationOfABrokenLogIsNotConfirmed(t *testing.T) {
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	for range 3 {
		_, err = l.Append(t.Context(), record.String("", "", "v"))
		require.NoError(t, err)
	}
	disk.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Err: syscall.EIO})
	require.ErrorIs(t, l.TruncateTo(2), syscall.EIO)
	require.ErrorIs(t, l.TruncateTo(2), syscall.EIO)
	_ = l.Close()
}
