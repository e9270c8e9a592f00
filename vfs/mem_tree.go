package vfs

import (
	"errors"
	"fmt"
	"io/fs"
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
// mu is taken for writing to change or copy the tree, and for reading to use files; then a file's
// own lock. Neither is held during a wait.
type memTree struct {
	boot atomic.Int64  // counts power cuts
	gen  atomic.Uint64 // of pages that may be written to; written under mu
	seq  atomic.Uint64 // order of all changes

	notes notebook // of the process that has the tree

	capacity atomic.Int64 // in bytes; 0: no bound
	growing  sync.Mutex   // under mu and above a file's own lock: one file grows at a time if there is a bound

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

func newMemTree(boot int64) *memTree {
	t := &memTree{root: newDirNode(0o777), locks: make(map[*node]bool)}
	t.boot.Store(boot)
	t.gen.Store(generations.Add(1))
	return t
}

func newDirNode(perm fs.FileMode) *node {
	return &node{mode: fs.ModeDir | perm.Perm(), dir: newMemDir()}
}

var (
	errNotDir   = errors.New("not a directory")
	errIsDir    = fmt.Errorf("%w: is a directory", ErrNotRegular)
	errNotEmpty = errors.New("directory not empty")
)

// below returns name relative to the root: its elements with slashes between them, "" for the root.
// Most names have this form already, and cost no memory.
func below(name string) string {
	slashed := strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(name, filepath.VolumeName(name))), "/")
	if !fs.ValidPath(slashed) {
		return path.Clean("/" + slashed)[1:]
	}
	if slashed == "." {
		return ""
	}
	return slashed
}

// walkLocked follows what below returned from the root.
func (t *memTree) walkLocked(rest string) (*node, error) {
	n := t.root
	for rest != "" {
		var e string
		e, rest, _ = strings.Cut(rest, "/")
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
func (t *memTree) lookupLocked(name string) (*node, error) { return t.walkLocked(below(name)) }

// parentLocked returns the directory name is or would be in, and its last element.
func (t *memTree) parentLocked(name string) (*memDir, string, error) {
	dir, base := path.Split(below(name))
	if base == "" {
		return nil, "", fs.ErrInvalid
	}
	n, err := t.walkLocked(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil, "", err
	}
	if n.dir == nil {
		return nil, "", errNotDir
	}
	return n.dir, base, nil
}

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

// RealPath implements FS. There are no symbolic links in memory.
func (t *memTree) RealPath(name string) (string, error) {
	if _, err := t.Stat(name); err != nil {
		return "", err
	}
	return string(filepath.Separator) + filepath.FromSlash(below(name)), nil
}

// BootID implements FS.
func (t *memTree) BootID() string { return fmt.Sprintf("memory-%d", t.boot.Load()) }
