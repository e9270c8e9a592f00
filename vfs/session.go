package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrEnded is returned by every call of a Session that has ended.
var ErrEnded = errors.New("vfs: session has ended")

// A Session is a file system for one user that can be cut off, as a killed process is. Until End it
// behaves as the file system below does.
//
//   - A call that begins after End fails with an error matching ErrEnded, and changes nothing.
//   - A call in progress at End fails in the same way, whatever it has done: a Sync that completes
//     later confirms nothing. The caller cannot know its effect. After Wait nothing changes any
//     more.
//   - Files and locks can be closed at any time.
//
// Delays of a FaultFS or MemFS below end with the session.
type Session struct {
	fs    FS
	ended atomic.Bool
	over  chan struct{} // closed by End

	// calls is the number of active calls. After End, the last one closes idle. A call is counted
	// before it reads ended, so no admitted call is missed.
	calls atomic.Int64
	once  sync.Once
	idle  chan struct{}

	reserve *reserve // nil: none, see Reserve
}

// NewSession returns a session on fsys.
func NewSession(fsys FS) *Session {
	s := &Session{over: make(chan struct{}), idle: make(chan struct{})}
	s.fs = interruptible(fsys, s.over)
	return s
}

// interruptible returns fsys with delays that end when over is closed.
func interruptible(fsys FS, over <-chan struct{}) FS {
	if m, ok := fsys.(*MemFS); ok {
		fsys = m.FaultFS
	}
	if f, ok := fsys.(*FaultFS); ok {
		return &FaultFS{faults: f.faults, fs: interruptible(f.fs, over), over: over}
	}
	return fsys
}

// End ends the session. It does not wait for calls in progress. It may be called repeatedly.
func (s *Session) End() {
	if s.ended.CompareAndSwap(false, true) {
		close(s.over)
		s.calls.Add(1)
		s.leave()
	}
}

// Wait waits until the session has ended and no call is in progress.
func (s *Session) Wait() { <-s.idle }

// enter counts a call; false: the session has ended.
func (s *Session) enter() bool {
	s.calls.Add(1)
	if s.ended.Load() {
		s.leave()
		return false
	}
	return true
}

// leave ends a call; false: the session has ended meanwhile.
func (s *Session) leave() bool {
	left := s.calls.Add(-1)
	if !s.ended.Load() {
		return true
	}
	if left == 0 {
		s.once.Do(func() { close(s.idle) })
	}
	return false
}

func (s *Session) do(op Op, name string, fn func() error) error {
	if !s.enter() {
		return hasEnded(op, name)
	}
	err := fn()
	for op&opReserved != 0 && s.reserve.lend(name, err) {
		err = fn()
	}
	if !s.leave() {
		return hasEnded(op, name)
	}
	return err
}

func hasEnded(op Op, name string) error {
	return &fs.PathError{Op: op.String(), Path: name, Err: ErrEnded}
}

// OpenFile implements FS.
func (s *Session) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	var f File
	op := OpOpen
	if flag&os.O_CREATE != 0 {
		op = OpCreate
	}
	err := s.do(op, name, func() (err error) {
		f, err = s.fs.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	return &sessionFile{s, f, s.reserve.keeps(name)}, nil
}

// Rename implements FS.
func (s *Session) Rename(oldname, newname string) error {
	return s.do(OpRename, newname, func() error { return s.fs.Rename(oldname, newname) })
}

// Link implements FS.
func (s *Session) Link(oldname, newname string) error {
	return s.do(OpLink, oldname, func() error { return s.fs.Link(oldname, newname) })
}

// Remove implements FS.
func (s *Session) Remove(name string) error {
	return s.do(OpRemove, name, func() error { return s.fs.Remove(name) })
}

// RemoveAll implements FS.
func (s *Session) RemoveAll(name string) error {
	return s.do(OpRemove, name, func() error { return s.fs.RemoveAll(name) })
}

// ReadDir implements FS.
func (s *Session) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = s.do(OpReadDir, name, func() (err error) {
		entries, err = s.fs.ReadDir(name)
		return err
	})
	return entries, err
}

// MkdirAll implements FS.
func (s *Session) MkdirAll(name string, perm fs.FileMode) error {
	return s.do(OpMkdir, name, func() error { return s.fs.MkdirAll(name, perm) })
}

// Stat implements FS.
func (s *Session) Stat(name string) (info fs.FileInfo, err error) {
	err = s.do(OpStat, name, func() (err error) {
		info, err = s.fs.Stat(name)
		return err
	})
	return info, err
}

// Chtimes implements FS.
func (s *Session) Chtimes(name string, mtime time.Time) error {
	return s.do(OpChtimes, name, func() error { return s.fs.Chtimes(name, mtime) })
}

// SyncDir implements FS.
func (s *Session) SyncDir(name string) error {
	return s.do(OpSyncDir, name, func() error { return s.fs.SyncDir(name) })
}

// Lock implements FS. The lock is held until it is closed: End does not release it.
func (s *Session) Lock(name string) (io.Closer, error) {
	var lock io.Closer
	err := s.do(OpLock, name, func() (err error) {
		lock, err = s.fs.Lock(name)
		return err
	})
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return nil, err
	}
	return lock, nil
}

// RealPath implements FS.
func (s *Session) RealPath(name string) (real string, err error) {
	err = s.do(OpStat, name, func() (err error) {
		real, err = s.fs.RealPath(name)
		return err
	})
	return real, err
}

// BootID implements FS.
func (s *Session) BootID() string { return s.fs.BootID() }

// Space implements SpaceFS.
func (s *Session) Space(path string) (total, free int64, err error) {
	below, ok := s.fs.(SpaceFS)
	if !ok {
		return 0, 0, errors.ErrUnsupported
	}
	err = s.do(OpStat, path, func() (err error) {
		total, free, err = below.Space(path)
		return err
	})
	return total, free, err
}

// readFile implements wholeReader.
func (s *Session) readFile(name string) (p []byte, err error) {
	err = s.do(OpRead, name, func() (err error) {
		p, err = ReadFile(s.fs, name)
		return err
	})
	return p, err
}

// isLink implements linkChecker. It returns true if the file system below does not: the caller then
// uses the real path.
func (s *Session) isLink(name string) (link bool, err error) {
	below, ok := s.fs.(linkChecker)
	if !ok {
		return true, nil
	}
	err = s.do(OpStat, name, func() (err error) {
		link, err = below.isLink(name)
		return err
	})
	return link, err
}
