package segment

import (
	"errors"
	"fmt"
)

// activeFile is the descriptor that a segment holds while it is written to. Guarded by mu.
//
// The writer takes it with writable, writes without mu, and ends that with wrote. A goroutine that
// removes the descriptor meanwhile (Remove, or a sync after the roll) cannot release it: bytes are
// being written through it. So dropActiveLocked leaves the release to wrote while writing is set,
// and otherwise releases it at once: each descriptor is released once.
type activeFile struct {
	// active is held from the first write on; nil: the cache opens the file when it is needed.
	active  *openFile
	writing bool // a write is under way, between writable and wrote; changed by the writer
}

// writable makes the segment ready for a write. wrote must follow.
func (s *Segment) writable() (*openFile, error) {
	s.mu.Lock()
	f := s.active
	s.changes++
	err := s.refusalLocked()
	s.writing = err == nil && f != nil
	s.mu.Unlock()
	if err != nil || f != nil {
		return f, err
	}
	if err := errors.Join(s.loadIndex(), s.loadNewest()); err != nil {
		return nil, err
	}
	f, err = s.cfg.Files.acquire(s)
	if err != nil {
		return nil, fmt.Errorf("append to %s: %w", s.Path(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusalLocked(); err != nil {
		return nil, errors.Join(err, s.cfg.Files.release(f))
	}
	s.active, s.writing = f, true
	return f, nil
}

// wrote ends writable. The file is not closed by that, unless the segment was removed meanwhile.
func (s *Segment) wrote(f *openFile) {
	s.mu.Lock()
	taken := s.wroteLocked(f)
	s.mu.Unlock()
	if taken {
		_ = s.cfg.Files.release(f)
	}
}

// wroteLocked is wrote. If it returns true, the segment lost the file during the write, and the
// caller must release it.
func (s *Segment) wroteLocked(f *openFile) (taken bool) {
	s.writing = false
	return s.active != f
}

// dropActiveLocked takes the descriptor away from the segment and returns it to be released; nil if
// there is none, or if it is being written to: then the writer releases it.
func (s *Segment) dropActiveLocked() *openFile {
	f := s.active
	if s.active = nil; s.writing {
		return nil
	}
	return f
}

// refusalLocked returns why the segment may not be written to.
func (s *Segment) refusalLocked() error {
	switch {
	case s.broken != nil:
		return s.broken
	case s.closed.Load() || s.removed.Load():
		return ErrClosed
	case s.sealed.Load() || s.cfg.ReadOnly:
		return ErrSealed
	}
	return nil
}

// cutBack undoes a failed write at pos and returns cause.
func (s *Segment) cutBack(f *openFile, pos int64, cause error) error {
	err := f.file.Truncate(pos)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.broken = errors.Join(cause, fmt.Errorf("cut back to %d bytes: %w", pos, err))
		return s.broken
	}
	s.alloc, s.zeroed = pos, min(s.zeroed, pos)
	return cause
}

// releaseActive gives the descriptor of a segment that is not written to any more back to the
// cache.
func (s *Segment) releaseActive() error {
	s.mu.Lock()
	f := s.dropActiveLocked()
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return s.cfg.Files.release(f)
}
