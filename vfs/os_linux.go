package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// openFile is os.OpenFile for regular files. That one offers each descriptor to
// the runtime's poller, which refuses files of this kind: five calls of the system
// for each file, and a log has several.
func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	fd, err := openFd(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openFd(name string, flag int, perm fs.FileMode) (fd int, err error) {
	// O_NONBLOCK: opening a pipe would wait for its other end. It changes nothing for regular files.
	err = retryInterrupted(func() (err error) {
		fd, err = unix.Open(name, flag|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, uint32(perm.Perm()))
		return err
	})
	switch err {
	case nil:
		if err = mustBeRegular(fd); err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	case unix.ENXIO, unix.EISDIR: // writing to a pipe without a reader, or to a directory
		err = fmt.Errorf("%w: %w", ErrNotRegular, err)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

func mustBeRegular(fd int) error {
	var st unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	return nil
}

// readFile implements wholeReader: four calls of the system and no os.File.
func (osFS) readFile(name string) ([]byte, error) {
	fd, err := openFd(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	p, err := readFd(fd)
	if closeErr := unix.Close(fd); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return p, nil
}

// readFd reads a file from its start, as far as it reaches now.
func readFd(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, err
	}
	if st.Size > MaxReadFile {
		return nil, tooLarge(st.Size)
	}
	p, total := make([]byte, st.Size), 0
	for total < len(p) {
		n, err := unix.Read(fd, p[total:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case n == 0: // it was cut meanwhile
			return p[:total], nil
		}
		total += n
	}
	return p, nil
}

// maxIovecs is the system's limit of buffers per call (IOV_MAX).
const maxIovecs = 1024

// writeAt is os.File.WriteAt without the locks that guard against a concurrent Close, which the
// contract of File excludes.
func writeAt(f *os.File, p []byte, off int64) (int, error) {
	fd, total := int(f.Fd()), 0
	if fd < 0 {
		return 0, os.ErrClosed
	}
	for {
		n, err := pwrite(fd, p[total:], off+int64(total))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return total, err
		}
		if total += n; total == len(p) {
			return total, nil
		}
		if n == 0 {
			return total, io.ErrShortWrite
		}
	}
}

// writev writes all of bufs with as few pwritev calls as possible.
func writev(f *os.File, bufs [][]byte, off int64) (int, error) {
	fd, total := int(f.Fd()), 0
	if fd < 0 {
		return 0, os.ErrClosed
	}
	for {
		for len(bufs) > 0 && len(bufs[0]) == 0 {
			bufs = bufs[1:]
		}
		if len(bufs) == 0 {
			return total, nil
		}
		n, err := unix.Pwritev(fd, bufs[:min(len(bufs), maxIovecs)], off+int64(total))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return total, err
		case n == 0:
			return total, io.ErrShortWrite
		}
		total += n
		bufs = skip(bufs, n)
	}
}

// skip drops the first n bytes of bufs, changing bufs but not the bytes.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

func syncData(f *os.File) error {
	return retryInterrupted(func() error { return unix.Fdatasync(int(f.Fd())) })
}

func allocate(f *os.File, off, n int64) error {
	return retryInterrupted(func() error { return unix.Fallocate(int(f.Fd()), 0, off, n) })
}

func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readBootID returns the kernel's random id of this boot.
func readBootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
