package vfs_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Opening a pipe waits for its other end, and a device has no end. Neither is a file of a log.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/dev/zero", link))
	for _, name := range []string{pipe, link, "/dev/null", filepath.Dir(pipe)} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
			_, err := vfs.OS().OpenFile(name, flag, 0o600)
			require.ErrorIs(t, err, vfs.ErrNotRegular, "%s %x", name, flag)
		}
		_, err := vfs.ReadFile(vfs.OS(), name)
		require.ErrorIs(t, err, vfs.ErrNotRegular)
		_, err = vfs.OS().Lock(name)
		require.ErrorIs(t, err, vfs.ErrNotRegular)
		_, err = vfs.LockShared(vfs.OS(), name)
		require.ErrorIs(t, err, vfs.ErrNotRegular)
		require.ErrorIs(t, vfs.Clone(vfs.OS(), name, filepath.Join(t.TempDir(), "copy")), vfs.ErrNotRegular)
	}
}

// A sparse file may be larger than the memory.
func TestSparseFileIsNotReadIntoMemory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sparse")
	require.NoError(t, os.WriteFile(name, []byte("a"), 0o600))
	require.NoError(t, os.Truncate(name, 1<<40))
	_, err := vfs.ReadFile(vfs.OS(), name)
	require.ErrorIs(t, err, vfs.ErrTooLarge)
	_, err = vfs.ReadFile(vfs.ReadOnly(vfs.OS()), name)
	require.ErrorIs(t, err, vfs.ErrTooLarge)
	disk := vfs.Mem()
	f, err := disk.OpenFile("sparse", os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(vfs.MaxReadFile+1))
	require.NoError(t, f.Close())
	_, err = vfs.ReadFile(disk, "sparse")
	require.ErrorIs(t, err, vfs.ErrTooLarge)
}
