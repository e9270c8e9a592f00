package kafkadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/stratalog/strata/vfs"
)

const (
	unfinishedSuffix = ".unfinished"
	lockFile         = ".lock"
)

// A staging is the directory in which something is made before it gets its name.
//
// It lies beside the final one, on the same file system, and everything in it is on stable storage
// before it is renamed. So a crash leaves no final directory, or all of it. Who makes it has its
// lock: what an earlier attempt has left is removed by the next, and two at a time exclude each
// other.
type staging struct {
	fsys vfs.FS
	dir  string // the final name
	tmp  string
	lock io.Closer
}

// newStaging makes an empty one. dir must not exist, or be an empty directory.
func newStaging(fsys vfs.FS, dir string) (*staging, error) {
	dir = filepath.Clean(dir)
	if err := isFree(fsys, dir); err != nil {
		return nil, err
	}
	s := &staging{fsys: fsys, dir: dir, tmp: dir + unfinishedSuffix}
	if err := vfs.MakeDir(fsys, s.tmp, 0o755); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(filepath.Join(s.tmp, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %s: somebody makes it just now", ErrInUse, s.tmp)
	}
	if err != nil {
		return nil, err
	}
	s.lock = lock
	entries, err := fsys.ReadDir(s.tmp)
	for _, e := range entries {
		if err == nil && e.Name() != lockFile {
			err = fsys.RemoveAll(filepath.Join(s.tmp, e.Name()))
		}
	}
	if err == nil {
		err = isFree(fsys, dir) // who had the lock before may have made it
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// isFree returns an error that matches fs.ErrExist if dir is there and not empty.
func isFree(fsys vfs.FS, dir string) error {
	info, err := fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	taken := &fs.PathError{Op: "make", Path: dir, Err: fs.ErrExist}
	if !info.IsDir() {
		return taken
	}
	entries, err := fsys.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return taken
	}
	return err
}

// finish gives the directory its name, durably. Everything in it must be on stable storage, but for
// the names right below it.
func (s *staging) finish() error {
	err := s.fsys.SyncDir(s.tmp)
	if err == nil {
		if err = s.fsys.Remove(s.dir); errors.Is(err, fs.ErrNotExist) { // an empty one
			err = nil
		}
	}
	if err == nil {
		err = s.fsys.Rename(s.tmp, s.dir)
	}
	if err != nil {
		return errors.Join(err, s.abort())
	}
	return errors.Join(s.fsys.SyncDir(filepath.Dir(s.dir)), s.lock.Close(), s.fsys.Remove(filepath.Join(s.dir, lockFile)))
}

// abort removes it.
func (s *staging) abort() error {
	return errors.Join(s.fsys.RemoveAll(s.tmp), s.lock.Close())
}
