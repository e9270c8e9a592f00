package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func writev(f *os.File, bufs [][]byte, off int64) (int, error) { return writevEach(f, bufs, off) }

// syncData flushes the drive's cache, too: os.File.Sync is F_FULLFSYNC here.
func syncData(f *os.File) error { return f.Sync() }

func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readBootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
