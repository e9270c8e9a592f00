package vfs_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

var allLost = vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}

func TestPowerCutTakesWhatWasNotSyncedFromOneDirectoryOnly(t *testing.T) {
	m := vfs.Mem()
	write := func(name, text string, sync bool) vfs.File {
		f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte(text), 0)
		require.NoError(t, err)
		if sync {
			require.NoError(t, f.Sync())
		}
		return f
	}
	require.NoError(t, m.MkdirAll("data/one/sub", 0o755))
	require.NoError(t, m.MkdirAll("data/two", 0o755))
	f := write("data/one/sub/f", "synced", true)
	require.NoError(t, m.SyncDir("data/one/sub"))
	require.NoError(t, m.SyncDir("data/one"))
	write("data/one/lost", "x", true)
	write("data/two/kept", "x", false)
	_, err := f.WriteAt([]byte("SYNC"), 0)
	require.NoError(t, err)
	lock, err := m.Lock("data/one/sub/f")
	require.NoError(t, err)
	require.NoError(t, m.SyncDir("data"))
	require.NoError(t, m.SyncDir("/"))
	boot := m.BootID()

	require.NoError(t, m.PowerCut("data/one", allLost))

	require.NotEqual(t, boot, m.BootID())
	read := func(name string) string {
		p, err := vfs.ReadFile(m, name)
		require.NoError(t, err)
		return string(p)
	}
	require.Equal(t, "synced", read("data/one/sub/f"))
	_, err = m.Stat("data/one/lost")
	require.ErrorIs(t, err, os.ErrNotExist, "its name was not synced")
	require.Equal(t, "x", read("data/two/kept"), "another disk")
	_, err = f.WriteAt([]byte("ZOMBIE"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.Equal(t, "synced", read("data/one/sub/f"), "nobody sees what a file writes that was open")
	again, err := m.Lock("data/one/sub/f")
	require.NoError(t, err, "the holder is gone")
	require.NoError(t, lock.Close())
	_, err = m.Lock("data/one/sub/f")
	require.ErrorIs(t, err, vfs.ErrLocked, "it was not its lock any more")
	require.NoError(t, again.Close())

	// The name of the directory itself stays, also if the whole disk loses power.
	crashed := m.CrashWith(allLost)
	p, err := vfs.ReadFile(crashed, "data/one/sub/f")
	require.NoError(t, err)
	require.Equal(t, "synced", string(p))
	require.ErrorIs(t, m.PowerCut("nowhere", allLost), os.ErrNotExist)
	require.Error(t, m.PowerCut("data/one/sub/f", allLost))
	require.NoError(t, m.PowerCut("/", allLost))
	require.Equal(t, "synced", read("data/one/sub/f"))
}
