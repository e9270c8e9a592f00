package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

var lockTroubles = []error{errors.New("disk"), syscall.EIO, syscall.EROFS, syscall.EACCES, errors.ErrUnsupported}

// When the disk cannot report whether the log is open, a second opener does not become a second
// owner. That holds for the first call that fails and for later ones, and for every error.
func TestOpenLogHasNoSecondOwnerWhileTheDiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a repeated look waits
		for n := range len(waysIn) * len(waysIn) * 2 * 8 * 2 {
			first, second := waysIn[n%len(waysIn)], waysIn[n/len(waysIn)%len(waysIn)]
			rest := n / len(waysIn) / len(waysIn)
			op, times, after := []vfs.Op{vfs.OpLock, vfs.OpStat}[rest%2], []int{1, vfs.Always}[rest/2%2], rest/4
			reason := lockTroubles[n%len(lockTroubles)]
			what := fmt.Sprintf("opened %s, then %s: %v %d fails, %d times: %v", first.name, second.name, op, after, times, reason)
			disk := vfs.Mem()
			l, closeAll, err := first.open(disk, "/base/root")
			require.NoError(t, err, what)
			disarm := disk.Inject(vfs.Fault{Ops: op, After: after, Times: times, Err: reason})
			_, _, err = second.open(disk, "/base/root")
			disarm()
			require.Error(t, err, what)
			if !errors.Is(err, ErrLocked) {
				require.ErrorIs(t, err, reason, what)
			}
			fill(t, l, 1)
			require.NoError(t, closeAll(), what)
			l, closeAll, err = second.open(disk, "/base/root")
			require.NoError(t, err, what)
			require.EqualValues(t, 1, l.EndOffset(), what)
			require.NoError(t, closeAll(), what)
		}
	})
}

// An owner was found, and then the disk failed: the error wraps both causes.
func TestDiskThatFailsAfterAnOwnerWasSeenIsErrLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reason := range lockTroubles {
			disk := vfs.Mem()
			_, closeAll, err := openThrough(disk, "/root", "/root/t-0")
			require.NoError(t, err)
			// The log's own lock, which is free, and the first look at the Directory's lock.
			disarm := disk.Inject(vfs.Fault{Ops: vfs.OpLock, After: 2, Times: vfs.Always, Err: reason})
			_, err = Open("/root/t-0", Config{FS: disk})
			disarm()
			require.ErrorIs(t, err, ErrLocked)
			require.ErrorIs(t, err, reason)
			require.NoError(t, closeAll())
		}
	})
}

// blindFS fails one operation on one file: either the look whether it exists or the look whether
// it is locked.
type blindFS struct {
	vfs.FS
	name string
	op   vfs.Op
	err  error
}

func (b *blindFS) fails(op vfs.Op, name string) error {
	if op != b.op || name != b.name {
		return nil
	}
	return &fs.PathError{Op: op.String(), Path: name, Err: b.err}
}

func (b *blindFS) Stat(name string) (fs.FileInfo, error) {
	if err := b.fails(vfs.OpStat, name); err != nil {
		return nil, err
	}
	return b.FS.Stat(name)
}

func (b *blindFS) Lock(name string) (io.Closer, error) {
	if err := b.fails(vfs.OpLock, name); err != nil {
		return nil, err
	}
	return b.FS.Lock(name)
}

// No process has the log open, and the disk cannot report that. Open fails with the disk's error
// and the file's name, and leaves the log free. OpenReadOnly succeeds, because it takes no lock.
func TestLockThatCannotBeLookedAtRefusesTheOpen(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpLock, vfs.OpStat} {
		for _, reason := range lockTroubles {
			disk := vfs.Mem()
			_, closeAll, err := openThrough(disk, "/root", "/root/t-0") // leaves /root/.lock
			require.NoError(t, err)
			require.NoError(t, closeAll())
			blind := &blindFS{FS: disk, name: "/root/.lock", op: op, err: reason}
			_, err = Open("/root/t-0", Config{FS: blind})
			require.ErrorIs(t, err, reason)
			require.NotErrorIs(t, err, ErrLocked, "nobody has been seen")
			require.ErrorContains(t, err, "/root/.lock")
			view, err := OpenReadOnly("/root/t-0", Config{FS: blind})
			require.NoError(t, err)
			require.NoError(t, view.Close())
			l, err := Open("/root/t-0", Config{FS: disk})
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
	}
}

// A directory cannot be locked, so a directory with the name of the lock file means that there is
// no owner.
func TestDirectoryInPlaceOfALockIsNoOwner(t *testing.T) {
	for _, fsys := range []vfs.FS{vfs.Mem(), vfs.OS()} {
		root := filepath.Join(t.TempDir(), "root")
		require.NoError(t, fsys.MkdirAll(filepath.Join(root, lockFile), 0o755))
		l, err := Open(filepath.Join(root, "t-0"), Config{FS: fsys})
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
