package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"
)

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
