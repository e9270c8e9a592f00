package kafkatest

import (
	"io/fs"

	"github.com/stratalog/strata/vfs"
)

// unsynced is a file system that never waits for the disk: written data survives the end of the
// process but not a power cut. Starting a broker and creating a topic sync a dozen files, which
// takes longer than the rest of a short test.
type unsynced struct{ vfs.FS }

func (u unsynced) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := u.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsynced) SyncDir(string) error { return nil }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }
