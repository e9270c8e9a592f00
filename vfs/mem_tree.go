package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// memTree is the file system behind a MemFS.
//
// mu is taken for writing by what changes or copies the tree and for reading by what works on
// files; then a file's own lock. Neither is held while anybody waits.
type memTree struct {
	boot int
	gen  atomic.Uint64 // of pages that may be written to; written under mu
	seq  atomic.Uint64 // order of all changes

	mu sync.RWMutex // guards the fields below, and every memDir

	root  *node
	locks map[*node]bool
}

// node is a file or a directory. Exactly one of dir and data is set.
type node struct {
	mode fs.FileMode
	dir  *memDir
	data *memData
}

// generations numbers the trees' right to write to pages. Global, because trees share pages.
var generations atomic.Uint64

func newMemTree(boot int) *memTree {
	t := &memTree{boot: boot, root: newDirNode(0o777), locks: make(map[*node]bool)}
	t.gen.Store(generations.Add(1))
	return t
}

func newDirNode(perm fs.FileMode) *node {
	return &node{mode: fs.ModeDir | perm.Perm(), dir: newMemDir()}
}

var (
	errNotDir   = errors.New("not a directory")
	errIsDir    = errors.New("is a directory")
	errNotEmpty = errors.New("directory not empty")
)

// split returns the elements of a name below the root.
func split(name string) []string {
	clean := path.Clean("/" + filepath.ToSlash(strings.TrimPrefix(name, filepath.VolumeName(name))))
	if clean == "/" {
		return nil
	}
	return strings.Split(clean[1:], "/")
}

// walkLocked follows elems from the root.
func (t *memTree) walkLocked(elems []string) (*node, error) {
	n := t.root
	for _, e := range elems {
		if n.dir == nil {
			return nil, errNotDir
		}
		if n = n.dir.live[e]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// lookupLocked returns what name is.
func (t *memTree) lookupLocked(name string) (*node, error) { return t.walkLocked(split(name)) }

// parentLocked returns the directory name is or would be in, and its last element.
func (t *memTree) parentLocked(name string) (*memDir, string, error) {
	elems := split(name)
	if len(elems) == 0 {
		return nil, "", fs.ErrInvalid
	}
	last := len(elems) - 1
	n, err := t.walkLocked(elems[:last])
	if err != nil {
		return nil, "", err
	}
	if n.dir == nil {
		return nil, "", errNotDir
	}
	return n.dir, elems[last], nil
}

// OpenFile implements FS.
func (t *memTree) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	n, err := t.open(name, flag, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := &memFile{tree: t, node: n, name: name, flag: flag}
	if flag&os.O_TRUNC != 0 {
		if err := f.Truncate(0); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (t *memTree) open(name string, flag int, perm fs.FileMode) (*node, error) {
	if flag&os.O_APPEND != 0 {
		return nil, errAppendFlag
	}
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.lookupLocked(name)
	switch {
	case err == nil && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case err == nil && n.dir != nil && (writes || flag&os.O_CREATE != 0):
		return nil, errIsDir
	case err == nil:
		return n, nil
	case !errors.Is(err, fs.ErrNotExist) || flag&os.O_CREATE == 0:
		return nil, err
	}
	dir, base, err := t.parentLocked(name)
	if err != nil {
		return nil, err
	}
	n = &node{mode: perm.Perm(), data: newMemData(time.Now())}
	t.changeLocked(edit{dir, base, n})
	return n, nil
}

// Rename implements FS.
func (t *memTree) Rename(oldname, newname string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.renameLocked(oldname, newname); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (t *memTree) renameLocked(oldname, newname string) error {
	from, oldBase, err := t.parentLocked(oldname)
	if err != nil {
		return err
	}
	to, newBase, err := t.parentLocked(newname)
	if err != nil {
		return err
	}
	n, target := from.live[oldBase], to.live[newBase]
	switch {
	case n == nil:
		return fs.ErrNotExist
	case n == target: // the same name, or two links to one file: POSIX wants nothing to happen
		return nil
	case target != nil && target.dir != nil && n.dir == nil:
		return fs.ErrExist
	case target != nil && target.dir == nil && n.dir != nil:
		return errNotDir
	case target != nil && target.dir != nil && len(target.dir.live) > 0:
		return errNotEmpty
	case n.dir != nil && slices.Equal(split(oldname), split(newname)[:min(len(split(oldname)), len(split(newname)))]):
		return fs.ErrInvalid // into itself
	}
	if from == to {
		t.changeLocked(edit{to, newBase, n}, edit{from, oldBase, nil})
		return nil
	}
	added := t.changeLocked(edit{to, newBase, n})
	t.changeLocked(edit{from, oldBase, nil}).after = added
	return nil
}

// Link implements FS.
func (t *memTree) Link(oldname, newname string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := func() error {
		n, err := t.lookupLocked(oldname)
		if err != nil {
			return err
		}
		dir, base, err := t.parentLocked(newname)
		switch {
		case err != nil:
			return err
		case n.dir != nil:
			return fs.ErrPermission
		case dir.live[base] != nil:
			return fs.ErrExist
		}
		t.changeLocked(edit{dir, base, n})
		return nil
	}()
	if err != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: err}
	}
	return nil
}

// Remove implements FS.
func (t *memTree) Remove(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, base, err := t.parentLocked(name)
	if err == nil {
		switch n := dir.live[base]; {
		case n == nil:
			err = fs.ErrNotExist
		case n.dir != nil && len(n.dir.live) > 0:
			err = errNotEmpty
		default:
			t.changeLocked(edit{dir, base, nil})
			return nil
		}
	}
	return &fs.PathError{Op: "remove", Path: name, Err: err}
}

// RemoveAll implements FS. A FaultFS, and so a MemFS, does it step by step instead.
func (t *memTree) RemoveAll(name string) error { return removeAll(t, name) }

// ReadDir implements FS.
func (t *memTree) ReadDir(name string) ([]fs.DirEntry, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, err := t.lookupLocked(name)
	if err == nil && n.dir == nil {
		err = errNotDir
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	entries := make([]fs.DirEntry, 0, len(n.dir.live))
	for base, child := range n.dir.live {
		entries = append(entries, fs.FileInfoToDirEntry(child.info(base)))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// MkdirAll implements FS.
func (t *memTree) MkdirAll(name string, perm fs.FileMode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.root
	for _, e := range split(name) {
		child := n.dir.live[e]
		if child == nil {
			child = newDirNode(perm)
			t.changeLocked(edit{n.dir, e, child})
		}
		if child.dir == nil {
			return &fs.PathError{Op: "mkdir", Path: name, Err: errNotDir}
		}
		n = child
	}
	return nil
}

// Stat implements FS.
func (t *memTree) Stat(name string) (fs.FileInfo, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, err := t.lookupLocked(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return n.info(filepath.Base(name)), nil
}

// Chtimes implements FS.
func (t *memTree) Chtimes(name string, mtime time.Time) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, err := t.lookupLocked(name)
	if err != nil {
		return &fs.PathError{Op: "chtimes", Path: name, Err: err}
	}
	if n.data != nil {
		n.data.mu.Lock()
		n.data.mtime = mtime
		n.data.mu.Unlock()
	}
	return nil
}

// SyncDir implements FS.
func (t *memTree) SyncDir(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.lookupLocked(name)
	if err == nil && n.dir == nil {
		err = errNotDir
	}
	if err != nil {
		return &fs.PathError{Op: "syncdir", Path: name, Err: err}
	}
	n.dir.syncLocked()
	return nil
}

// Lock implements FS.
func (t *memTree) Lock(name string) (io.Closer, error) {
	n, err := t.open(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.locks[n] {
			t.locks[n] = true
			return &memLock{tree: t, node: n}, nil
		}
		err = ErrLocked
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

// memLock is a held lock.
type memLock struct {
	tree *memTree
	node *node
	once sync.Once
}

// Close ends the lock, once.
func (l *memLock) Close() error {
	l.once.Do(func() {
		l.tree.mu.Lock()
		defer l.tree.mu.Unlock()
		delete(l.tree.locks, l.node)
	})
	return nil
}

// RealPath implements FS. There are no symbolic links in memory.
func (t *memTree) RealPath(name string) (string, error) {
	if _, err := t.Stat(name); err != nil {
		return "", err
	}
	return string(filepath.Separator) + filepath.Join(split(name)...), nil
}

// BootID implements FS.
func (t *memTree) BootID() string { return fmt.Sprintf("memory-%d", t.boot) }
