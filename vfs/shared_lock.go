package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// LockShared takes a shared lock of a file, which prevents exclusive locks of it until Close. It
// changes nothing: the file must exist, and is opened for reading only. It is for readers of a
// directory that no process, including a broker of Apache Kafka, may open meanwhile. The JVM takes
// another kind of lock (fcntl) than FS.Lock does (flock), and LockShared takes both. It never
// waits.
//
// It fails with ErrLocked if the file is locked, also by this process, where even two shared locks
// of one file exclude each other. It fails with an error matching fs.ErrNotExist if there is no
// such file, and with errors.ErrUnsupported if fsys, or the operating system, does not support such
// locks.
func LockShared(fsys FS, name string) (io.Closer, error) {
	if l, ok := fsys.(sharedLocker); ok {
		return l.lockShared(name)
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}

// sharedLocker is implemented by file systems of this package that have shared locks.
type sharedLocker interface {
	lockShared(name string) (io.Closer, error)
}

// lockShared implements sharedLocker.
func (osFS) lockShared(name string) (io.Closer, error) {
	key, err := lockKey(name)
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if !locks.take(key) {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	f, err := openFile(name, os.O_RDONLY, 0)
	if err == nil {
		if err = shareFile(f); err == nil {
			return &osLock{f: f, key: key}, nil
		}
		err = &fs.PathError{Op: "lock", Path: name, Err: errors.Join(err, f.Close())}
	}
	locks.release(key)
	return nil, err
}

// lockShared implements sharedLocker.
func (m *MemFS) lockShared(name string) (io.Closer, error) {
	if _, err := m.Stat(name); err != nil {
		return nil, err
	}
	return m.tree.Lock(name) // nothing is made: it is there
}
