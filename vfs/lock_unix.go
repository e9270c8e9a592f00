//go:build unix && !aix && !solaris

package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks an open file exclusively, without waiting. The lock ends when the descriptor is
// closed, also by the end of the process.
func lockFile(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return ErrLocked
		default:
			return err
		}
	}
}

// unlockFile ends the locks that lockFile and shareFile take, for copies of the descriptor, too.
func unlockFile(f *os.File) error {
	none := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart}
	return errors.Join(unix.FcntlFlock(f.Fd(), sharedLockCommand, &none), unix.Flock(int(f.Fd()), unix.LOCK_UN))
}
