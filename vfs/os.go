package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// OS returns the operating system's file system.
//
// On Linux, File.Sync is fdatasync, WritevAt is pwritev and Allocate is fallocate. Elsewhere they
// are the nearest calls of the system, and Allocate may return an error matching
// errors.ErrUnsupported. Where directories cannot be synced (Windows), SyncDir does nothing.
func OS() FS { return osFS{} }

type osFS struct{}

// OpenFile implements FS.
func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if flag&os.O_APPEND != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errAppendFlag}
	}
	f, err := openFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (osFS) Rename(oldname, newname string) error         { return os.Rename(oldname, newname) }
func (osFS) Link(oldname, newname string) error           { return os.Link(oldname, newname) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }

// Chtimes implements FS; the access time stays as it is.
func (osFS) Chtimes(name string, mtime time.Time) error { return os.Chtimes(name, time.Time{}, mtime) }

// RealPath implements FS.
func (osFS) RealPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// isLink implements linkChecker. On Windows a name has more forms than its links.
func (osFS) isLink(name string) (bool, error) {
	info, err := os.Lstat(name)
	return err == nil && (info.Mode()&fs.ModeSymlink != 0 || runtime.GOOS == "windows"), err
}

// BootID implements FS.
func (osFS) BootID() string { return bootID() }

var bootID = sync.OnceValue(readBootID)

// SyncDir implements FS.
func (osFS) SyncDir(name string) error { return syncDir(name) }

// Lock implements FS: a lock of the system on the open file, and an entry in a registry of this
// process, because some network file systems grant a process the same lock twice.
func (osFS) Lock(name string) (io.Closer, error) {
	key, err := lockKey(name)
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if !locks.take(key) {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	f, err := openFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		if err = lockFile(f); err == nil {
			return &osLock{f: f, key: key}, nil
		}
		err = &fs.PathError{Op: "lock", Path: name, Err: errors.Join(err, f.Close())}
	}
	locks.release(key)
	return nil, err
}

// lockKey returns one name for all the ways to write a path.
func lockKey(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// osLock is a held lock.
type osLock struct {
	f    *os.File
	key  string
	once sync.Once
	err  error
}

// Close ends the lock. Further calls return the result of the first. Closing the descriptor would
// not be enough: a process that this one is starting has a copy of it, and would keep the lock.
func (l *osLock) Close() error {
	l.once.Do(func() {
		l.err = errors.Join(unlockFile(l.f), l.f.Close())
		locks.release(l.key)
	})
	return l.err
}

// locks holds the names this process has locked. It has to be global: two users of a directory need
// not know each other.
var locks lockRegistry

type lockRegistry struct {
	mu sync.Mutex // guards the fields below

	held map[string]bool
}

func (r *lockRegistry) take(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[key] {
		return false
	}
	if r.held == nil {
		r.held = make(map[string]bool)
	}
	r.held[key] = true
	return true
}

func (r *lockRegistry) release(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, key)
}

// osFile is a File of the operating system; Name, ReadAt, Truncate, Close and Fd are os.File's.
type osFile struct{ *os.File }

// Size implements File.
func (f *osFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// Sync implements File.
func (f *osFile) Sync() error {
	if err := syncData(f.File); err != nil {
		return pathError("sync", f.Name(), err)
	}
	return nil
}

// Allocate implements File.
func (f *osFile) Allocate(off, n int64) error {
	if err := allocate(f.File, off, n); err != nil {
		return pathError("allocate", f.Name(), err)
	}
	return nil
}

// WriteAt implements File.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("write", f.Name(), errNegativeOffset)
	}
	n, err := writeAt(f.File, p, off)
	if err != nil {
		err = pathError("write", f.Name(), err)
	}
	return n, err
}

// WritevAt implements File.
func (f *osFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	switch {
	case off < 0:
		return 0, pathError("writev", f.Name(), errNegativeOffset)
	case len(bufs) == 1:
		return f.WriteAt(bufs[0], off)
	}
	n, err := writev(f.File, bufs, off)
	if err != nil {
		err = pathError("writev", f.Name(), err)
	}
	return n, err
}

// pathError wraps err unless it is a *fs.PathError already.
func pathError(op, name string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

var (
	errAppendFlag     = errors.New("O_APPEND is not supported: writers pass positions")
	errNegativeOffset = errors.New("negative offset")
)
