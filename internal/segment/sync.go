package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// stability is the known state of a segment's bytes on stable storage. Guarded by mu.
type stability struct {
	broken error // of a failed sync or cut-back; sticky, set once
	// changes counts moments at which a write may have begun: if none came while a sync ran, it
	// covers everything.
	changes  int64
	unsynced bool // Recover found bytes that may never have been synced
}

// Sync makes every batch appended before the call survive power loss. It does not block appends. A
// failure is sticky: every later Sync and Append returns the same error. The system may have
// dropped the pages, so that another sync could succeed without them.
func (s *Segment) Sync() error {
	s.mu.Lock()
	if err := s.broken; err != nil || s.active == nil && !s.unsynced {
		s.mu.Unlock()
		return err // without a descriptor nothing was written since it was released, after a sync
	}
	s.mu.Unlock()
	f, err := s.cfg.Files.acquire(s)
	if err != nil {
		return fmt.Errorf("sync %s: %w", s.Path(), err)
	}
	f.syncing <- struct{}{}
	err = s.syncFile(f)
	<-f.syncing
	if released := s.cfg.Files.release(f); err == nil {
		err = released
	}
	return err
}

// syncFile syncs f, the only one to do so, and records the outcome. After a failure it is not tried
// again.
func (s *Segment) syncFile(f *openFile) error {
	s.mu.Lock()
	before, quiet, err := s.changes, s.active == f && !s.writing, s.broken
	s.mu.Unlock()
	if err != nil { // of the sync that this one waited for
		return err
	}
	err = f.file.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.broken == nil {
		s.broken = fmt.Errorf("sync %s: %w", s.Path(), err)
	}
	if err != nil {
		err = s.broken
	} else {
		s.unsynced = false
		// Too many are open: the next write opens this one again.
		if quiet && s.active == f && s.changes == before && s.cfg.Files.over.Load() {
			s.active, s.untrimmed = nil, true
			f.users.Add(-1)
		}
	}
	return err
}

// MarkUnsynced marks the segment's content as possibly not on stable storage, since it was found
// and not written: the next Sync is not skipped. Recover does that itself.
func (s *Segment) MarkUnsynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsynced = true
}

// MarkSynced marks everything that Recover found as synced, because another descriptor of the file
// was synced since.
func (s *Segment) MarkSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsynced = false
}

// Seal ends writing: it writes the final time index entry, frees preallocated space, and syncs the
// log and the indexes. It is idempotent. Only the writer may call it.
func (s *Segment) Seal() error {
	if err := s.Finish(); err != nil {
		return err
	}
	return s.SyncSealed()
}

// Finish ends writing as Seal does, but leaves the sync to SyncSealed. Only the writer may call it.
func (s *Segment) Finish() error {
	s.mu.Lock()
	sealed, broken := s.sealed.Load(), s.broken
	s.mu.Unlock()
	if sealed || broken != nil {
		return broken
	}
	f, err := s.writable()
	if err != nil {
		return err
	}
	s.wrote(f)
	if err := errors.Join(s.trim(), s.flushIndex(flushFinal)); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed.Store(true)
	s.dropIndexLocked()
	return nil
}

// Unseal undoes Seal or Finish: the segment can be written to again. Only the writer may call it.
func (s *Segment) Unseal() error {
	if err := errors.Join(s.loadIndex(), s.loadNewest()); err != nil {
		return fmt.Errorf("unseal: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed.Store(false)
	return nil
}

// SyncSealed syncs the log and the indexes of a segment after Finish, and releases its descriptor.
// Failures are sticky, as with Sync. If Truncate makes the segment writable meanwhile, the
// descriptor is kept.
func (s *Segment) SyncSealed() error {
	s.mu.Lock()
	before := s.changes
	s.mu.Unlock()
	if err := s.Sync(); err != nil {
		return err
	}
	if s.removed.Load() {
		return nil
	}
	if err := s.syncIndexes(); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	s.mu.Lock()
	var f *openFile
	if s.sealed.Load() && s.changes == before {
		f = s.dropActiveLocked()
	}
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return s.cfg.Files.release(f)
}

func (s *Segment) syncIndexes() error {
	var errs []error
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		f, err := s.cfg.FS.OpenFile(s.name(suffix), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // there was none: it is built when it is needed
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, f.Sync(), f.Close())
	}
	return errors.Join(errs...)
}
