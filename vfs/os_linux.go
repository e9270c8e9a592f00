package vfs

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

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
