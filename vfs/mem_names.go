package vfs

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"
)

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
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.lookupLocked(name)
	switch {
	case err == nil && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case err == nil && n.dir != nil:
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
	if n == nil {
		return fs.ErrNotExist
	}
	if n == target { // the same name, or two links to one file: POSIX wants nothing to happen
		return nil
	}
	if err := n.mayReplace(target); err != nil {
		return err
	}
	if n.dir != nil && within(below(newname), below(oldname)) {
		return fs.ErrInvalid
	}
	if from == to {
		t.changeLocked(edit{to, newBase, n}, edit{from, oldBase, nil})
		return nil
	}
	added := t.changeLocked(edit{to, newBase, n})
	t.changeLocked(edit{from, oldBase, nil}).after = added
	return nil
}

// mayReplace returns why n cannot get the name that target has; target may be nil.
func (n *node) mayReplace(target *node) error {
	switch {
	case target == nil:
		return nil
	case target.dir != nil && n.dir == nil:
		return fs.ErrExist
	case target.dir == nil && n.dir != nil:
		return errNotDir
	case target.dir != nil && len(target.dir.live) > 0:
		return errNotEmpty
	}
	return nil
}

// within reports whether a name lies in dir, or is dir; both as below returns them.
func within(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, dir)
	return ok && (rest == "" || dir == "" || rest[0] == '/')
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

// MkdirAll implements FS.
func (t *memTree) MkdirAll(name string, perm fs.FileMode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.root
	for rest := below(name); rest != ""; {
		var e string
		e, rest, _ = strings.Cut(rest, "/")
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
