package log

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestClosedDirectoryIsLeftAsKafkaLeavesIt(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	for i, dir := range []string{"data/a-b-0", "data/a-b-1", "data/no-partition"} {
		l, err := Open(dir, Config{Dir: d})
		require.NoError(t, err)
		fill(t, l, 5+i)
		if i == 1 {
			require.NoError(t, l.DeleteRecords(3))
		}
		require.NoError(t, l.Close())
	}
	require.NoError(t, d.Close())
	for name, want := range map[string]string{
		recoveryPointFile: "0\n2\na-b 0 5\na-b 1 6\n",
		logStartFile:      "0\n1\na-b 1 3\n",
		cleanShutdownFile: cleanShutdown,
	} {
		p, err := vfs.ReadFile(disk, "data/"+name)
		require.NoError(t, err)
		require.Equal(t, want, string(p))
	}

	// Without strata.state the directory looks like one of Kafka.
	for _, dir := range []string{"data/a-b-0", "data/a-b-1"} {
		require.NoError(t, disk.Remove(dir+"/"+stateFile))
	}
	d, err = OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	_, err = disk.Stat("data/" + cleanShutdownFile)
	require.Error(t, err, "the marker is gone while the directory is in use")
	l, err := Open("data/a-b-1", Config{Dir: d})
	require.NoError(t, err)
	require.True(t, l.Recovery().Clean)
	require.EqualValues(t, 3, l.StartOffset())
	require.EqualValues(t, 6, l.EndOffset())
	killed := disk.Kill()
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())

	d, err = OpenDirectory("data", DirectoryConfig{FS: killed})
	require.NoError(t, err)
	l, err = Open("data/a-b-0", Config{Dir: d})
	require.NoError(t, err)
	require.False(t, l.Recovery().Clean, "nobody says so any more")
	require.Positive(t, l.Recovery().ScannedBytes)
	require.EqualValues(t, 5, l.EndOffset())
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
}

func TestDamagedCheckpointOfADirectoryIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 -1\n", "0\nx\n", "\x00"} {
		disk := vfs.Mem()
		require.NoError(t, vfs.MakeDir(disk, "data", 0o755))
		require.NoError(t, vfs.WriteFile(disk, "data/"+recoveryPointFile, []byte(text)))
		_, err := OpenDirectory("data", DirectoryConfig{FS: disk})
		require.ErrorIs(t, err, ErrCorrupt, "%q", text)
		require.NoError(t, disk.Remove("data/"+recoveryPointFile))
		d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
		require.NoError(t, err, "the lock was given back")
		require.NoError(t, d.Close())
	}
}

// The next owner finds the note of the previous one, once, and only if the directory was closed
// properly.
func TestNoteIsFoundByTheNextOwnerOnce(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	open := func(disk vfs.FS) *Directory {
		t.Helper()
		d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
		require.NoError(t, err)
		return d
	}
	d := open(disk)
	require.Empty(t, d.Note())
	d.LeaveNote("epoch=7\n")
	require.Empty(t, d.Note(), "it is for the next one")
	require.NoError(t, d.Close())

	d = open(disk)
	require.Equal(t, "epoch=7\n", d.Note())
	d.LeaveNote("epoch=8\n")
	crashed := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	require.NoError(t, d.Close())
	died := open(crashed)
	require.Empty(t, died.Note(), "it was not closed")
	require.NoError(t, died.Close())

	broker := disk.Kill()
	require.NoError(t, vfs.WriteFile(broker, "data/"+cleanShutdownFile, []byte(`{"version":0,"brokerEpoch":8}`)))
	d = open(broker)
	require.Empty(t, d.Note(), "a Kafka broker has had it since")
	require.NoError(t, d.Close())
}
