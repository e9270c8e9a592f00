package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A JVM locks files with fcntl, for writing.
func TestSharedLocksExcludeThoseOfAJVM(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	writer := unix.Flock_t{Type: unix.F_WRLCK}
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &writer))
	_, err = LockShared(OS(), path)
	require.ErrorIs(t, err, ErrLocked)

	none := unix.Flock_t{Type: unix.F_UNLCK}
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &none))
	lock, err := LockShared(OS(), path)
	require.NoError(t, err)
	require.ErrorIs(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &writer), unix.EAGAIN)
	// a program that is being started has a copy
	copied, err := unix.Dup(int(lock.(*osLock).f.Fd()))
	require.NoError(t, err)
	defer unix.Close(copied)
	require.NoError(t, lock.Close())
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &writer))
}
