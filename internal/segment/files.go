package segment

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/vfs"
)

// DefaultOpenFiles is the default number of descriptors that a FileCache keeps open.
const DefaultOpenFiles = 512

// A FileCache keeps the .log descriptors of many segments open, up to a limit. To open another one,
// it closes a descriptor that has not been used for long and is not in use. A segment that receives
// appends uses its file until it is synced. If all descriptors are in use, the limit is exceeded. A
// FileCache is safe for concurrent use; using an open file takes no lock.
type FileCache struct {
	max int

	// over means that the bound is exceeded: a release of a file looks for a victim. Stored under
	// mu.
	over atomic.Bool

	// mu guards the fields below, and stores to Segment.file. Never taken with another lock held.
	mu    sync.Mutex
	files []*openFile // all that are open
	hand  int         // of the CLOCK algorithm: where the search for the next victim begins
}

// openFile is a descriptor with the number of its users.
type openFile struct {
	owner *Segment
	file  vfs.File

	// syncing has room for one: the goroutine that syncs the descriptor puts a value in, and takes
	// it out when the segment has the outcome. Linux reports a failed write to one sync of a
	// descriptor only. Of two syncs at the same time the other one would succeed without the bytes
	// that it is to cover.
	syncing chan struct{}

	users atomic.Int64 // below zero: no new ones, and the last one closes the file
	used  atomic.Bool  // since the hand came past: set by users, cleared under the cache's mu
	slot  int          // in files; -1: no longer there. Guarded by the cache's mu

	reopened reopened
}

// noMoreUsers is added to users of a file that is to be closed.
const noMoreUsers = math.MinInt64 / 2

// NewFileCache returns a cache of at most max open files. 0 means DefaultOpenFiles.
func NewFileCache(max int) *FileCache {
	if max <= 0 {
		max = DefaultOpenFiles
	}
	return &FileCache{max: max}
}

// Len returns the number of open files.
func (c *FileCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.files)
}

// hold adds a user unless the file is to be closed.
func (f *openFile) hold() bool {
	for {
		n := f.users.Load()
		if n < 0 {
			return false
		}
		if f.users.CompareAndSwap(n, n+1) {
			if !f.used.Load() {
				f.used.Store(true)
			}
			return true
		}
	}
}

// acquire returns the open file of s, opening it if it is not. It must be given back with release.
func (c *FileCache) acquire(s *Segment) (*openFile, error) {
	if f := s.file.Load(); f != nil && f.hold() {
		return f, nil
	}
	return c.open(s)
}

func (c *FileCache) open(s *Segment) (*openFile, error) {
	if s.gone() {
		return nil, ErrClosed
	}
	file, err := s.openLog()
	if err != nil {
		return nil, err
	}
	f := &openFile{owner: s, file: file, syncing: make(chan struct{}, 1)}
	f.users.Store(1)
	f.used.Store(true)

	c.mu.Lock()
	if now := s.file.Load(); now != nil && now.hold() { // another goroutine opened it meanwhile
		c.mu.Unlock()
		_ = file.Close() // nothing was written through it
		return now, nil
	}
	if s.gone() { // and its file is closed already, or will be after this lock
		c.mu.Unlock()
		return nil, errors.Join(ErrClosed, file.Close())
	}
	s.file.Store(f)
	f.slot = len(c.files)
	c.files = append(c.files, f)
	victims := c.victimsLocked()
	c.mu.Unlock()
	_ = closeAll(victims) // of other segments, synced or read only: s has its file
	return f, nil
}

// victimsLocked removes unused files from a cache that is too full, and returns them. It spares
// once each file that was used since the last search.
func (c *FileCache) victimsLocked() (victims []*openFile) {
	for looks := 2 * len(c.files); looks > 0 && len(c.files) > c.max; looks-- {
		c.hand++
		if c.hand >= len(c.files) {
			c.hand = 0
		}
		f := c.files[c.hand]
		if f.users.Load() != 0 || f.used.Swap(false) || !f.users.CompareAndSwap(0, noMoreUsers) {
			continue
		}
		c.dropLocked(f)
		victims = append(victims, f)
	}
	c.over.Store(len(c.files) > c.max)
	return victims
}

func (c *FileCache) dropLocked(f *openFile) {
	last := len(c.files) - 1
	c.files[f.slot] = c.files[last]
	c.files[f.slot].slot = f.slot
	c.files[last] = nil
	c.files = c.files[:last]
	f.slot = -1
	f.owner.file.CompareAndSwap(f, nil)
}

func closeAll(files []*openFile) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// release ends acquire and hold.
func (c *FileCache) release(f *openFile) error {
	n := f.users.Add(-1)
	if n == noMoreUsers {
		return f.close()
	}
	if n != 0 || !c.over.Load() {
		return nil
	}
	c.mu.Lock()
	victims := c.victimsLocked()
	c.mu.Unlock()
	return closeAll(victims)
}

// withFile calls fn with the open .log file of s. If fn fails its error is returned, else that of
// giving the file back.
func (s *Segment) withFile(fn func(f *openFile) error) error {
	f, err := s.cfg.Files.acquire(s)
	if err != nil {
		return err
	}
	err = fn(f)
	if released := s.cfg.Files.release(f); err == nil {
		err = released
	}
	return err
}

// closeFile closes the file of s as soon as it has no users. s must be gone, so that no caller
// opens it again.
func (c *FileCache) closeFile(s *Segment) error {
	c.mu.Lock()
	f := s.file.Load()
	if f == nil || f.slot < 0 {
		c.mu.Unlock()
		return nil
	}
	c.dropLocked(f)
	c.mu.Unlock()
	if f.users.Add(noMoreUsers) == noMoreUsers {
		return f.close()
	}
	return nil
}
