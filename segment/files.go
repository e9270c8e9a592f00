package segment

import (
	"container/list"
	"errors"
	"os"
	"sync"

	"github.com/stratalog/strata/vfs"
)

// DefaultOpenFiles is the descriptors a FileCache keeps open.
const DefaultOpenFiles = 512

// A FileCache keeps the descriptors of many segments open, up to a bound: the least recently used one that nobody uses is closed for a new one.
// If all are in use, the bound is exceeded until one is free. Safe for concurrent use.
type FileCache struct {
	max int

	mu    sync.Mutex             // guards the fields below and every entry
	files map[*Segment]*openFile // by owner, not by name: names change hands when segments are removed and replaced
	lru   list.List              // of *openFile without users, oldest first
}

type openFile struct {
	owner *Segment
	file  vfs.File
	users int
	idle  *list.Element // in lru; nil while there are users
	stale bool          // closed with the last user
}

// NewFileCache returns a cache of at most max open files. 0: DefaultOpenFiles.
func NewFileCache(max int) *FileCache {
	if max <= 0 {
		max = DefaultOpenFiles
	}
	return &FileCache{max: max, files: map[*Segment]*openFile{}}
}

// acquire returns the file of owner, opening it if it is not. It must be given back with release.
func (c *FileCache) acquire(owner *Segment, open func() (vfs.File, error)) (*openFile, error) {
	c.mu.Lock()
	if f := c.files[owner]; f != nil {
		f.users++
		if f.idle != nil {
			c.lru.Remove(f.idle)
			f.idle = nil
		}
		c.mu.Unlock()
		return f, nil
	}
	c.mu.Unlock()

	file, err := open()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if f := c.files[owner]; f != nil { // somebody else opened it meanwhile
		f.users++
		if f.idle != nil {
			c.lru.Remove(f.idle)
			f.idle = nil
		}
		c.mu.Unlock()
		return f, errors.Join(nil, ignoreClosed(file.Close()))
	}
	f := &openFile{owner: owner, file: file, users: 1}
	c.files[owner] = f
	victim := c.victimLocked()
	c.mu.Unlock()
	if victim != nil {
		return f, ignoreClosed(victim.file.Close())
	}
	return f, nil
}

// hold adds a user to a file that has one already.
func (c *FileCache) hold(f *openFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.users++
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// victimLocked takes the oldest idle file out of a cache that is too full.
func (c *FileCache) victimLocked() *openFile {
	if len(c.files) <= c.max || c.lru.Len() == 0 {
		return nil
	}
	f := c.lru.Remove(c.lru.Front()).(*openFile)
	f.idle = nil
	delete(c.files, f.owner)
	return f
}

func (c *FileCache) release(f *openFile) error {
	c.mu.Lock()
	f.users--
	if f.users > 0 {
		c.mu.Unlock()
		return nil
	}
	if f.stale {
		c.mu.Unlock()
		return f.file.Close()
	}
	f.idle = c.lru.PushBack(f)
	victim := c.victimLocked()
	c.mu.Unlock()
	if victim != nil {
		return victim.file.Close()
	}
	return nil
}

// forget closes the file of owner as soon as nobody uses it.
func (c *FileCache) forget(owner *Segment) error {
	c.mu.Lock()
	f := c.files[owner]
	if f == nil {
		c.mu.Unlock()
		return nil
	}
	delete(c.files, owner)
	f.stale = true
	if f.users > 0 {
		c.mu.Unlock()
		return nil
	}
	c.lru.Remove(f.idle)
	f.idle = nil
	c.mu.Unlock()
	return f.file.Close()
}

// Len returns the number of open files.
func (c *FileCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.files)
}
