package vfs

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks an open file exclusively, without waiting. The lock ends when the handle is
// closed, also by the end of the process.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return ErrLocked
	}
	return err
}

// unlockFile ends the locks that lockFile and shareFile take. Windows does it some time after the
// handle is closed.
func unlockFile(f *os.File) error {
	err := windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_NOT_LOCKED { // shareFile locks another range
		err = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, ^uint32(0), 0, new(windows.Overlapped))
	}
	return err
}
