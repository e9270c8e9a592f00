package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// ErrReadOnly is returned for every change by a file system of ReadOnly.
var ErrReadOnly = errors.New("vfs: file system is read-only")

// ReadOnly returns a view of fsys that rejects changes: every call that could change the disk, or
// the data that a power failure would leave, fails with a *fs.PathError matching ErrReadOnly and
// does not reach fsys. This includes syncs, locks, calls that would change nothing (RemoveAll of a
// missing name), and files opened with anything but os.O_RDONLY. Changes that others make in fsys
// are visible.
func ReadOnly(fsys FS) FS {
	if ro, ok := fsys.(readOnlyFS); ok {
		return ro
	}
	return readOnlyFS{fsys}
}

// readOnlyFS names its file system instead of embedding it: a method that FS gains must be thought
// about.
type readOnlyFS struct{ fs FS }

func refuse(op Op, name string) error {
	return &fs.PathError{Op: op.String(), Path: name, Err: ErrReadOnly}
}

// OpenFile implements FS.
func (r readOnlyFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		return nil, refuse(OpCreate, name)
	}
	if flag != os.O_RDONLY {
		return nil, refuse(OpOpen, name)
	}
	f, err := r.fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return readOnlyFile{f}, nil
}

func (r readOnlyFS) Rename(oldname, _ string) error             { return refuse(OpRename, oldname) }
func (r readOnlyFS) Link(oldname, _ string) error               { return refuse(OpLink, oldname) }
func (r readOnlyFS) Remove(name string) error                   { return refuse(OpRemove, name) }
func (r readOnlyFS) RemoveAll(name string) error                { return refuse(OpRemove, name) }
func (r readOnlyFS) ReadDir(name string) ([]fs.DirEntry, error) { return r.fs.ReadDir(name) }
func (r readOnlyFS) MkdirAll(name string, _ fs.FileMode) error  { return refuse(OpMkdir, name) }
func (r readOnlyFS) Stat(name string) (fs.FileInfo, error)      { return r.fs.Stat(name) }
func (r readOnlyFS) Chtimes(name string, _ time.Time) error     { return refuse(OpChtimes, name) }
func (r readOnlyFS) SyncDir(name string) error                  { return refuse(OpSyncDir, name) }
func (r readOnlyFS) Lock(name string) (io.Closer, error)        { return nil, refuse(OpLock, name) }
func (r readOnlyFS) RealPath(name string) (string, error)       { return r.fs.RealPath(name) }
func (r readOnlyFS) BootID() string                             { return r.fs.BootID() }

func (r readOnlyFS) readFile(name string) ([]byte, error) { return ReadFile(r.fs, name) }

// readOnlyFile names its file for the same reason.
type readOnlyFile struct{ f File }

func (r readOnlyFile) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAt(p, off) }
func (r readOnlyFile) Close() error                            { return r.f.Close() }
func (r readOnlyFile) Name() string                            { return r.f.Name() }
func (r readOnlyFile) Size() (int64, error)                    { return r.f.Size() }

func (r readOnlyFile) WriteAt([]byte, int64) (int, error)    { return 0, refuse(OpWrite, r.f.Name()) }
func (r readOnlyFile) WritevAt([][]byte, int64) (int, error) { return 0, refuse(OpWrite, r.f.Name()) }
func (r readOnlyFile) Truncate(int64) error                  { return refuse(OpTruncate, r.f.Name()) }
func (r readOnlyFile) Sync() error                           { return refuse(OpSync, r.f.Name()) }
func (r readOnlyFile) Allocate(int64, int64) error           { return refuse(OpAllocate, r.f.Name()) }
