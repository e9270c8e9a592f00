//go:build !linux && !darwin

package vfs

import (
	"errors"
	"os"
	"runtime"
)

// syncDir syncs a directory where that is possible. Windows has no such call; NTFS keeps its
// entries in a journal.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return d.Close()
	}
	return errors.Join(d.Sync(), d.Close())
}

func readBootID() string { return "" }
