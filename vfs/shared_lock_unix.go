//go:build unix && !aix && !solaris

package vfs

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// shareFile takes both kinds of shared locks of an open file, without waiting. They end when the
// descriptor is closed.
func shareFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch err {
		case unix.EINTR:
			continue
		case unix.EWOULDBLOCK:
			return ErrLocked
		case nil:
		default:
			return err
		}
		break
	}
	read := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart} // to the end, however far that is
	for {
		err := unix.FcntlFlock(f.Fd(), sharedLockCommand, &read)
		switch err {
		case unix.EINTR:
			continue
		case unix.EAGAIN, unix.EACCES:
			return ErrLocked
		}
		return err
	}
}
