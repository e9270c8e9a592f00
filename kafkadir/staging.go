package kafkadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/vfs"
)

const (
	unfinishedSuffix = ".unfinished"
	lockFile         = ".lock"
)

// A staging is the directory in which something is made before it gets its name.
//
// It lies beside the final one, on the same file system, and everything in it is on stable storage
// before it is renamed. So a crash leaves no final directory, or all of it. If the final directory
// exists it may be a mount point, which has no name to give away. Then the staging directory lies
// inside it, and its entries are moved up; the last one of them makes the rest valid.
//
// An import or export holds the lock of its staging directory, so two exclude each other. The next
// attempt removes the files of an interrupted one.
type staging struct {
	fsys   vfs.FS
	dir    string // the final name
	tmp    string
	inside bool   // tmp lies in dir
	last   string // the entry that is moved up last, if inside
	lock   io.Closer
}

// newStaging makes an empty one. dir must not exist, or be an empty directory. last is the name of
// the entry without which the other ones count for nothing.
func newStaging(fsys vfs.FS, dir, last string) (*staging, error) {
	dir = filepath.Clean(dir)
	inside, err := isFree(fsys, dir)
	if err != nil {
		return nil, err
	}
	s := &staging{fsys: fsys, dir: dir, tmp: vfs.WithSuffix(dir, unfinishedSuffix), inside: inside, last: last}
	if inside {
		s.tmp = filepath.Join(dir, unfinishedSuffix)
	}
	if err := vfs.MakeDir(fsys, s.tmp, 0o700); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(filepath.Join(s.tmp, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %s: another process is creating it", ErrInUse, s.tmp)
	}
	if err != nil {
		return nil, err
	}
	s.lock = lock
	entries, err := s.entries()
	for _, name := range entries {
		if err == nil {
			err = fsys.RemoveAll(filepath.Join(s.tmp, name))
		}
	}
	if err == nil {
		_, err = isFree(fsys, dir) // the previous holder of the lock may have made it
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// isFree returns an error that matches fs.ErrExist if dir has entries, other than the staging
// directory of an attempt that was interrupted and the lost+found of a file system. exists reports
// whether there is a directory.
func isFree(fsys vfs.FS, dir string) (exists bool, err error) {
	info, err := fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return true, &fs.PathError{Op: "make", Path: dir, Err: fs.ErrExist}
	}
	entries, err := vfs.ReadContent(fsys, dir)
	for _, e := range entries {
		if e.Name() != unfinishedSuffix {
			return true, fmt.Errorf("%s is not empty: %w", dir, fs.ErrExist)
		}
	}
	return true, err
}

// entries lists the staging directory, except for its lock.
func (s *staging) entries() (names []string, err error) {
	entries, err := s.fsys.ReadDir(s.tmp)
	for _, e := range entries {
		if e.Name() != lockFile {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// finish gives the directory its name, durably. Everything in it must be on stable storage, except
// for the names right below it.
func (s *staging) finish() error {
	err := s.fsys.SyncDir(s.tmp)
	if err == nil && s.inside {
		return s.moveUp()
	}
	if err == nil {
		err = s.fsys.Rename(s.tmp, s.dir)
	}
	if err != nil {
		return errors.Join(err, s.abort())
	}
	return errors.Join(s.fsys.SyncDir(filepath.Dir(s.dir)), s.lock.Close(), s.fsys.Remove(filepath.Join(s.dir, lockFile)))
}

// moveUp is finish of a staging directory inside the final one.
func (s *staging) moveUp() error {
	names, err := s.entries()
	var moved []string
	move := func(name string) {
		if err == nil {
			err = s.fsys.Rename(filepath.Join(s.tmp, name), filepath.Join(s.dir, name))
			moved = append(moved, name)
		}
	}
	for _, name := range names {
		if name != s.last {
			move(name)
		}
	}
	if err == nil {
		err = s.fsys.SyncDir(s.dir)
	}
	if slices.Contains(names, s.last) {
		move(s.last)
	}
	if err == nil {
		err = s.fsys.SyncDir(s.dir)
	}
	if err == nil {
		return errors.Join(s.abort(), s.fsys.SyncDir(s.dir))
	}
	for _, name := range slices.Backward(moved) { // the last one first
		err = errors.Join(err, s.fsys.RemoveAll(filepath.Join(s.dir, name)))
	}
	return errors.Join(err, s.abort())
}

// abort removes the staging directory.
func (s *staging) abort() error {
	return errors.Join(s.fsys.RemoveAll(s.tmp), s.lock.Close())
}
