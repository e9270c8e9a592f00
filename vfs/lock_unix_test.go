//go:build unix && !aix && !solaris

package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A program that is being started has copies of all descriptors for a moment.
func TestLocksEndWithCloseWhileAnotherProgramIsStarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	exclusive, err := OS().Lock(path)
	require.NoError(t, err)
	childs, err := unix.Dup(int(exclusive.(*osLock).f.Fd()))
	require.NoError(t, err)
	defer unix.Close(childs)
	require.NoError(t, exclusive.Close())

	shared, err := LockShared(OS(), path)
	require.NoError(t, err)
	childs, err = unix.Dup(int(shared.(*osLock).f.Fd()))
	require.NoError(t, err)
	defer unix.Close(childs)
	require.NoError(t, shared.Close())

	exclusive, err = OS().Lock(path)
	require.NoError(t, err)
	require.NoError(t, exclusive.Close())
}
