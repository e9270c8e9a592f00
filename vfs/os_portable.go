//go:build !linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
)

func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	// Opening a pipe would wait for its other end.
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return os.OpenFile(name, flag, perm)
}

func writeAt(f *os.File, p []byte, off int64) (int, error) { return f.WriteAt(p, off) }

func writev(f *os.File, bufs [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range bufs {
		n, err := f.WriteAt(b, off+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// syncData flushes the drive's cache, too: on macOS os.File.Sync is F_FULLFSYNC.
func syncData(f *os.File) error { return f.Sync() }

func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }
