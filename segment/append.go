package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stratalog/strata/vfs"
)

// Append writes whole batches at the end in one vectored write and publishes them. bufs hold the bytes of all batches, in order; they are
// borrowed, and bufs itself is changed. Offsets must grow from NextOffset on.
//
// After a failed write the file is cut back to its last good batch and the error returned; appending may go on when the disk does. If the
// cut fails too, or a Sync has failed, every later Append returns that same error.
func (s *Segment) Append(bufs [][]byte, batches []BatchInfo) error {
	s.mu.Lock()
	err := s.writableLocked()
	f := s.active
	s.changes++
	s.mu.Unlock()
	if err != nil {
		return err
	}
	pos, total := s.size.Load(), 0
	for i := range batches {
		total += batches[i].Size
	}
	n, err := f.file.WritevAt(bufs, pos) // without the lock: readers take it
	if err == nil && n != total {
		err = fmt.Errorf("wrote %d of %d bytes", n, total)
	}
	if err != nil {
		return s.cutBack(f, pos, fmt.Errorf("append to %s: %w", s.Path(), err))
	}
	s.published(pos, total, batches)
	return nil
}

// published enters batches that are in the file from pos on.
func (s *Segment) published(pos int64, total int, batches []BatchInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := *s.newest.Load()
	for _, b := range batches {
		if b.MaxTimestamp > newest.ts {
			newest = timestampAt{b.MaxTimestamp, b.LastOffset}
		}
		if pos == 0 {
			s.firstTs = b.MaxTimestamp
		}
		s.index.add(b, s.base, pos, newest, s.cfg.IndexIntervalBytes)
		pos += int64(b.Size)
	}
	if s.checked.own.Load() < 0 {
		s.checked.own.Store(pos - int64(total))
	}
	s.alloc = max(s.alloc, pos)
	if newest != *s.newest.Load() {
		s.newest.Store(&newest)
	}
	s.next.Store(batches[len(batches)-1].LastOffset + 1)
	s.size.Store(pos)
	if len(s.index.offsets)-s.index.flushedO >= indexFlushEntries {
		// The batches are in the file: a failure to write hints is no failure to append. Recover finds them missing.
		_ = s.flushIndexLocked(false)
	}
}

// writableLocked makes the segment ready for a write.
func (s *Segment) writableLocked() error {
	switch {
	case s.broken != nil:
		return s.broken
	case s.closed || s.removed:
		return ErrClosed
	case s.sealed || s.cfg.ReadOnly:
		return ErrSealed
	case s.active != nil:
		return nil
	}
	if err := s.loadIndexLocked(); err != nil {
		return err
	}
	f, err := s.cfg.Files.acquire(s, func() (vfs.File, error) { return s.cfg.FS.OpenFile(s.path, os.O_RDWR, 0) })
	if err != nil {
		return fmt.Errorf("append to %s: %w", s.path, err)
	}
	s.active = f
	return nil
}

// cutBack undoes a failed write at pos and returns cause.
func (s *Segment) cutBack(f *openFile, pos int64, cause error) error {
	err := f.file.Truncate(pos)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alloc = pos
	if err != nil {
		s.broken = errors.Join(cause, fmt.Errorf("cut back to %d bytes: %w", pos, err))
		return s.broken
	}
	return cause
}

// Preallocate reserves disk space for step bytes more if less than half a step is left, so that syncs need not write the file's size.
// A zero tail is a normal end of a segment. Where the file system cannot, nothing happens.
func (s *Segment) Preallocate(step int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alloc-s.size.Load() > step/2 {
		return nil
	}
	if err := s.writableLocked(); err != nil {
		return err
	}
	err := s.active.file.Allocate(s.alloc, step)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("preallocate %s: %w", s.path, err)
	}
	s.alloc += step
	return nil
}

// Allocated returns the bytes of the file with its preallocated tail.
func (s *Segment) Allocated() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc
}

// TrimTail gives preallocated space back and lets the descriptor go: for a log that is idle. Everything must be synced before.
func (s *Segment) TrimTail() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil || s.broken != nil {
		return s.broken
	}
	return errors.Join(s.trimLocked(), s.letGoLocked())
}

func (s *Segment) trimLocked() error {
	if s.alloc == s.size.Load() {
		return nil
	}
	if err := s.active.file.Truncate(s.size.Load()); err != nil {
		return fmt.Errorf("trim %s: %w", s.path, err)
	}
	s.alloc = s.size.Load()
	return nil
}

// Sync makes every batch appended before the call survive power loss. It does not stop appends. A failure is sticky: the system may have
// dropped the pages, so syncing again could succeed without them; every later Sync and Append returns the same error.
func (s *Segment) Sync() error {
	s.mu.Lock()
	if s.active == nil && s.found { // by a process that was killed before it could sync
		if err := s.writableLocked(); err != nil {
			defer s.mu.Unlock()
			return err
		}
	}
	f := s.active
	if s.broken != nil || f == nil {
		defer s.mu.Unlock()
		return s.broken // nothing was written since the descriptor was let go, which happens only after a sync
	}
	s.found = false
	s.cfg.Files.hold(f)
	s.mu.Unlock()

	err := f.file.Sync()
	if err != nil {
		s.mu.Lock()
		if s.broken == nil {
			s.broken = fmt.Errorf("sync %s: %w", s.path, err)
		}
		err = s.broken
		s.mu.Unlock()
	}
	if released := s.cfg.Files.release(f); err == nil {
		err = released
	}
	return err
}

// MarkUnsynced says that what the segment holds was found, not written, and may not be on stable storage: the next Sync is not skipped.
func (s *Segment) MarkUnsynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = true
}

// Seal ends writing: the final time index entry is made, preallocated space given back, log and indexes synced. It is idempotent.
func (s *Segment) Seal() error {
	if err := s.Finish(); err != nil {
		return err
	}
	return s.SyncSealed()
}

// Sealed reports whether Seal has succeeded.
func (s *Segment) Sealed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sealed
}

func (s *Segment) syncIndexes() error {
	var errs []error
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		f, err := s.cfg.FS.OpenFile(s.file(suffix), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // of a segment found without: made anew when it is needed
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, f.Sync(), f.Close())
	}
	return errors.Join(errs...)
}

// Finish ends writing as Seal does, but leaves the syncing to SyncSealed.
func (s *Segment) Finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed || s.broken != nil {
		return s.broken
	}
	if err := s.writableLocked(); err != nil {
		return err
	}
	if err := errors.Join(s.trimLocked(), s.flushIndexLocked(true)); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	s.sealed = true
	s.changes++
	return nil
}

// SyncSealed syncs log and indexes of a segment that Finish ended, and lets its descriptor go. Failures are sticky as those of Sync.
func (s *Segment) SyncSealed() error {
	s.mu.Lock()
	before := s.changes
	s.mu.Unlock()
	if err := s.Sync(); err != nil {
		return err
	}
	s.mu.Lock()
	removed := s.removed
	s.mu.Unlock()
	if removed {
		return nil
	}
	if err := s.syncIndexes(); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sealed || s.changes != before { // a truncation made it active again: what was written since is not synced
		return nil
	}
	return s.letGoLocked()
}
