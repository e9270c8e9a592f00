package log

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// The first leader epoch of a new log is in its state file, which must be written anyway. It is as
// durable as in a file of its own.
func TestFirstLeaderEpochSurvivesWithoutAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	syncs := disk.Count(vfs.OpSync | vfs.OpSyncDir)
	l, err := Open("dir/log", Config{Dir: d})
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(3))
	require.NoError(t, l.SetLeaderEpoch(3))
	check := func(after *vfs.MemFS, records int) {
		again, err := Open("dir/log", Config{FS: after})
		require.NoError(t, err)
		epoch, ok := again.Epochs().Latest()
		require.True(t, ok)
		require.EqualValues(t, 3, epoch)
		require.EqualValues(t, 3, again.Epochs().At(0))
		require.Len(t, values(t, again), records)
		require.NoError(t, again.Close())
		text, err := vfs.ReadFile(after, "dir/log/"+epochFile)
		require.NoError(t, err)
		require.Equal(t, "0\n1\n3 0\n", string(text), "Kafka finds it in its file when the log was closed")
	}
	for seed := range uint64(10) {
		check(disk.Crash(seed), 0)
	}
	check(disk.Kill(), 0)
	fill(t, l, 1)
	require.LessOrEqual(t, disk.Count(vfs.OpSync|vfs.OpSyncDir)-syncs, int64(5), "the directory twice, its entry, the state and the record")
	_, err = disk.Stat("dir/log/" + epochFile)
	require.Error(t, err)
	for seed := range uint64(10) {
		check(disk.Crash(seed), 1)
	}
	check(disk.Kill(), 1)

	require.NoError(t, l.Backup(t.Context(), disk, "copy"))
	copied, err := Open("copy", Config{FS: disk})
	require.NoError(t, err)
	require.EqualValues(t, 3, copied.Epochs().At(0))
	require.NoError(t, copied.Close())

	require.NoError(t, l.SetLeaderEpoch(5))
	fill(t, l, 1)
	// without the file both epochs are found in the batches
	for _, removed := range []bool{false, true} {
		after := disk.Crash(1)
		if removed {
			require.NoError(t, after.Remove("dir/log/"+epochFile))
		}
		again, err := Open("dir/log", Config{FS: after})
		require.NoError(t, err)
		require.EqualValues(t, 3, again.Epochs().At(0))
		require.EqualValues(t, 5, again.Epochs().At(1))
		require.NoError(t, again.Close())
	}
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
}
