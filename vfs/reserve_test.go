package vfs_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

const block = 4096

// writeNew writes n bytes at the beginning of a new file.
func writeNew(fsys vfs.FS, name string, n int) (written int, err error) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.WriteAt(make([]byte, n), 0)
}

func TestMemoryWithACapacityIsFullAsADiskIs(t *testing.T) {
	m := vfs.Mem()
	_, _, err := m.Space("/")
	require.Error(t, err, "no bound, no size")
	m.SetCapacity(10 * block)
	_, err = writeNew(m, "/a", 6*block-1)
	require.NoError(t, err)
	n, err := writeNew(m, "/b", 5*block)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 4*block, n, "as much as fits takes place")
	total, free, err := m.Space("/")
	require.NoError(t, err)
	require.Equal(t, []int64{10 * block, 0}, []int64{total, free})
	_, err = writeNew(m, "/a", 6*block)
	require.NoError(t, err, "within the last block of the file")
	f, err := m.OpenFile("/c", os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, f.Allocate(0, block), syscall.ENOSPC)
	require.NoError(t, m.Remove("/a"))
	require.NoError(t, f.Allocate(0, 6*block))
	require.ErrorIs(t, f.Allocate(0, 7*block), syscall.ENOSPC)
	m.SetCapacity(0)
	require.NoError(t, f.Allocate(0, 70*block))
}

// On a full disk only essential files are written, with space of the reserve, until the reserve is
// complete again.
func TestReserveIsForEssentialFilesOnly(t *testing.T) {
	const held = 16 * block // a step of the reserve
	m := vfs.Mem()
	m.SetCapacity(64 * 64 * block)
	s := vfs.NewSession(m)
	require.NoError(t, s.Reserve("/reserve", 2*held, func(name string) bool { return strings.HasPrefix(name, "/essential") }))
	_, free, err := m.Space("/")
	require.NoError(t, err)
	require.Equal(t, int64(64*64*block-2*held), free)
	other, err := s.OpenFile("/other", os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.Allocate(0, free))

	require.NoError(t, vfs.WriteFile(s, "/essential", []byte("small")))
	_, err = other.WriteAt(make([]byte, block), free)
	require.ErrorIs(t, err, syscall.ENOSPC, "what was given up for the essential file is not taken by another")
	_, err = other.WritevAt([][]byte{make([]byte, block)}, free)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, other.Allocate(free, block), syscall.ENOSPC)
	f, err := s.OpenFile("/essential", os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WritevAt([][]byte{make([]byte, held), make([]byte, held-block)}, block)
	require.NoError(t, err, "all of it is there to be used")
	_, err = f.WriteAt(make([]byte, 1), 2*held)
	require.ErrorIs(t, err, syscall.ENOSPC, "and no more")

	require.NoError(t, other.Truncate(0))
	_, err = other.WriteAt(make([]byte, block), 0)
	require.NoError(t, err, "it is whole again")
	info, err := m.Stat("/reserve")
	require.NoError(t, err)
	require.Equal(t, int64(2*held), info.Size())
}

// When the disk has no room for the reserve, it is taken as soon as there is room.
func TestReserveIsTakenWhenThereIsRoom(t *testing.T) {
	m := vfs.Mem()
	m.SetCapacity(64 * 64 * block)
	_, err := writeNew(m, "/others", (64*64-3)*block)
	require.NoError(t, err)
	s := vfs.NewSession(m)
	require.NoError(t, s.Reserve("/reserve", 16*block, func(name string) bool { return name == "/essential" }))
	_, err = writeNew(s, "/other", 1)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = writeNew(s, "/essential", 2*block)
	require.NoError(t, err)
	require.NoError(t, m.Remove("/others"))
	_, err = writeNew(s, "/other", 1)
	require.NoError(t, err)
}
