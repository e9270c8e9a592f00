package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/stratalog/strata/vfs"
)

// lifetime counts the users of a segment's .log file.
type lifetime struct {
	refs     atomic.Int32 // one of the owner, until Remove or Close, and one per Acquire
	removed  atomic.Bool  // set once, under mu, after the .log file was renamed
	kept     atomic.Bool  // of a removed one: the file stays until Expire
	unlinked atomic.Bool  // the file is deleted, or was to be: set by the goroutine that deletes it
	closed   atomic.Bool  // set once, by Discard

	// abortedLeft is the transaction index of a segment that was removed while it was acquired,
	// else nil. Stored once, before removed.
	abortedLeft atomic.Pointer[[]byte]
}

// gone reports whether the .log file may not be opened any more.
func (s *Segment) gone() bool {
	return s.closed.Load() || s.removed.Load() && s.refs.Load() <= 0
}

// openLog opens the .log file whatever its name is at the moment. Remove changes the name, and the
// old one may be another segment's then: only a name that is still ours after opening was ours
// while it was opened.
func (s *Segment) openLog() (vfs.File, error) {
	flag := os.O_RDWR
	if s.cfg.ReadOnly {
		flag = os.O_RDONLY
	}
	for {
		path := s.currentPath()
		f, err := s.cfg.FS.OpenFile(path, flag, 0o600)
		if s.currentPath() == path {
			return f, err
		}
		if err == nil {
			if err := f.Close(); err != nil {
				return nil, err
			}
		}
	}
}

// currentPath returns the name of the .log file. It waits for a Remove that is giving it another
// one.
func (s *Segment) currentPath() string {
	for {
		s.mu.Lock()
		deleted, renaming := s.deleted, s.renaming
		s.mu.Unlock()
		switch {
		case renaming != nil:
			<-renaming
		case deleted != "":
			return deleted
		default:
			return s.name(LogSuffix)
		}
	}
}

// Acquire keeps the segment readable until Release, even if it is removed meanwhile. It returns
// false if the segment is closed, or is removed and not acquired by any caller.
func (s *Segment) Acquire() bool {
	for !s.closed.Load() {
		n := s.refs.Load()
		if n <= 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Release ends an Acquire. The last Release deletes the files of a removed segment.
func (s *Segment) Release() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	err := s.cfg.Files.closeFile(s)
	if s.removed.Load() && !s.kept.Load() {
		err = errors.Join(err, s.unlink())
	}
	return err
}

// unlink deletes the file of a removed segment, once.
func (s *Segment) unlink() error {
	if !s.unlinked.CompareAndSwap(false, true) {
		return nil
	}
	return s.cfg.FS.Remove(s.currentPath())
}

// Removed reports whether the segment was removed from its directory: its file names are free, or
// belong to another segment.
func (s *Segment) Removed() bool { return s.removed.Load() }

var removals atomic.Int64

// Remove removes the segment from its directory. The .log file is renamed at once (suffix .deleted)
// and deleted when the last reader has released it. The directory must be synced for the removal to
// survive power loss. It is idempotent, and may be repeated after a failure.
func (s *Segment) Remove() error { return s.remove(false) }

// RemoveLater is Remove, but keeps the renamed file until Expire.
func (s *Segment) RemoveLater() error { return s.remove(true) }

// Expire deletes the file that RemoveLater has left, now or when the last reader has released it.
// It is idempotent.
func (s *Segment) Expire() error {
	s.kept.Store(false)
	if s.removed.Load() && s.refs.Load() <= 0 { // else the last Release does it
		return s.unlink()
	}
	return nil
}

func (s *Segment) remove(keep bool) error {
	var aborted *[]byte
	if s.refs.Load() > 1 { // readers continue with the indexes in memory
		_ = s.loadIndex() // without it they scan
		if p, err := s.readAborted(); err == nil {
			aborted = &p
		}
	}
	s.indexing.Lock() // the names of the index files are another segment's afterwards
	defer s.indexing.Unlock()
	s.mu.Lock()
	if s.removed.Load() || s.closed.Load() {
		s.mu.Unlock()
		return nil
	}
	renamed := make(chan struct{})
	s.renaming = renamed
	s.mu.Unlock()
	// Numbered: a segment that was removed under this name before may still have readers.
	path := s.name(LogSuffix)
	deleted := fmt.Sprintf("%s.%d%s", path, removals.Add(1), DeletedSuffix)
	err := s.cfg.FS.Rename(path, deleted)
	s.mu.Lock()
	s.renaming = nil
	close(renamed) // waiters read the name again, after mu
	if err != nil {
		s.mu.Unlock()
		return fmt.Errorf("remove segment: %w", err)
	}
	s.deleted, s.index.removed = deleted, true
	s.kept.Store(keep)
	s.abortedLeft.Store(aborted)
	s.removed.Store(true)
	active := s.dropActiveLocked()
	s.mu.Unlock()
	if active != nil {
		err = s.cfg.Files.release(active)
	}
	if !s.noAborted.Load() { // a kill may have left it
		if rmErr := s.cfg.FS.Remove(s.name(TxnIndexSuffix) + ".tmp"); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	return errors.Join(err, s.removeIndexes(), s.Release())
}

func (s *Segment) removeIndexes() error {
	var errs []error
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix, TxnIndexSuffix} {
		if err := s.cfg.FS.Remove(s.name(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close trims preallocated space, writes the indexes and closes the files. It does not sync. It is
// idempotent; a sealed segment need not be closed. Reads in progress complete, later ones return
// ErrClosed.
func (s *Segment) Close() error {
	if s.closed.Load() || s.removed.Load() {
		return nil
	}
	var errs []error
	if !s.cfg.ReadOnly && s.Err() == nil {
		errs = append(errs, s.trim(), s.flushIndex(flushFinal))
	}
	return errors.Join(append(errs, s.Discard())...)
}

// Discard closes the files without writing anything, for a segment that was only inspected. It is
// idempotent.
func (s *Segment) Discard() error {
	if s.closed.Load() || s.removed.Load() {
		return nil
	}
	err := errors.Join(s.releaseActive(), s.unpin())
	s.closed.Store(true)
	return errors.Join(err, s.cfg.Files.closeFile(s), s.Release())
}
