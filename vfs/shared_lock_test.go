package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSharedLocksExcludeTheOtherKindAndMakeNothing(t *testing.T) {
	for name, fsys := range map[string]FS{"os": OS(), "memory": Mem()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, fsys.MkdirAll(dir, 0o755))
			path := filepath.Join(dir, ".lock")
			_, err := LockShared(fsys, path)
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, err = fsys.Stat(path)
			require.ErrorIs(t, err, fs.ErrNotExist)

			lock, err := fsys.Lock(path)
			require.NoError(t, err)
			_, err = LockShared(fsys, path)
			require.ErrorIs(t, err, ErrLocked)
			require.NoError(t, lock.Close())
			lock, err = LockShared(fsys, path)
			require.NoError(t, err)
			_, err = fsys.Lock(path)
			require.ErrorIs(t, err, ErrLocked)
			require.NoError(t, lock.Close())
			lock, err = fsys.Lock(path)
			require.NoError(t, err)
			require.NoError(t, lock.Close())
		})
	}
	_, err := LockShared(ReadOnly(Mem()), "x")
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestAClonedFileIsAFileOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.WriteFile(from, []byte("content"), 0o644))
	err := Clone(OS(), from, to)
	if errors.Is(err, errors.ErrUnsupported) {
		_, err := os.Stat(to)
		require.ErrorIs(t, err, fs.ErrNotExist)
		t.Skip("this file system has no reflinks")
	}
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(from, []byte("changed"), 0o644))
	p, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, "content", string(p))
	require.ErrorIs(t, Clone(OS(), from, to), fs.ErrExist)
	require.ErrorIs(t, Clone(Mem(), from, to), errors.ErrUnsupported)
}
