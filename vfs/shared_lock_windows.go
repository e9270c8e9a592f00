package vfs

import (
	"os"

	"golang.org/x/sys/windows"
)

// shareFile locks all of an open file, shared with other readers. The lock ends when the handle is
// closed.
func shareFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY, 0, ^uint32(0), ^uint32(0), new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return ErrLocked
	}
	return err
}
