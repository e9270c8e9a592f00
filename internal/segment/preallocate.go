package segment

import (
	"errors"
	"fmt"
	"syscall"
)

// space is the reserved part of a segment's file, behind its end. Guarded by mu, changed by the
// writer. Size <= alloc and zeroed <= alloc.
type space struct {
	alloc     int64 // size of the file: Size and preallocated zeros
	zeroed    int64 // up to here zeros were written into the allocated space; see ZeroAhead
	untrimmed bool  // space may be reserved behind the end though no descriptor is held
}

// Preallocate reserves disk space for step more bytes if less than half a step is left, so that
// syncs need not write the file's size. A zero tail is a normal end of a segment. If the file
// system does not support it, or has no room for a whole step, nothing happens. Only the writer may
// call it.
func (s *Segment) Preallocate(step int64) error {
	s.mu.Lock()
	alloc := s.alloc
	s.mu.Unlock()
	if alloc-s.Size() > step/2 {
		return nil
	}
	f, err := s.writable()
	if err != nil {
		return err
	}
	defer s.wrote(f)
	err = f.file.Allocate(alloc, step)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		// The append may fit all the same. The reserved part of the step is given back.
		if err := f.file.Truncate(alloc); err != nil {
			return fmt.Errorf("preallocate %s: %w", s.Path(), err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("preallocate %s: %w", s.Path(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alloc = alloc + step
	return nil
}

// TrimTail frees preallocated space and releases the descriptor, for a log that is idle. Everything
// must be synced before. Only the writer may call it.
func (s *Segment) TrimTail() error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.trim(); err != nil {
		return err
	}
	return s.releaseActive()
}

// trim cuts the preallocated tail of a segment that was written to.
func (s *Segment) trim() error {
	s.mu.Lock()
	reserved, alloc := s.active != nil || s.untrimmed, s.alloc
	s.mu.Unlock()
	size := s.Size()
	if !reserved || alloc == size {
		return nil
	}
	f, err := s.cfg.Files.acquire(s)
	if err == nil {
		err = errors.Join(f.file.Truncate(size), s.cfg.Files.release(f))
	}
	if err != nil {
		return fmt.Errorf("trim %s: %w", s.Path(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alloc, s.zeroed, s.untrimmed = size, min(s.zeroed, size), false
	return nil
}
