package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// clone implements cloner.
func (osFS) clone(oldname, newname string) (err error) {
	in, err := openFile(oldname, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close() // it was only read
	out, err := os.OpenFile(newname, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(newname))
		}
	}()
	err = retryInterrupted(func() error { return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) })
	switch err {
	case nil:
		return nil
	case unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.EPERM: // errors of the kernel for different file systems, among others
		err = errors.ErrUnsupported
	}
	return &fs.PathError{Op: "clone", Path: newname, Err: err}
}
