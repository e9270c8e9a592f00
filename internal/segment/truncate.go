package segment

import (
	"fmt"
	"math"
)

// Truncate removes the batch that contains offset and everything after it, so that NextOffset is
// offset or less. A sealed segment can be written to again. It syncs the indexes, but not the log.
// The transaction index does not change: until the cut is on stable storage, a crash may bring the
// markers of its entries back. If Truncate fails, the segment is unchanged except for entries of
// the other indexes. Only the writer may call it.
func (s *Segment) Truncate(offset int64) error {
	pos, err := s.Locate(offset)
	if err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	to, newest := end{pos, s.base}, timestampAt{-1, s.base}
	err = s.headersUpTo(pos, func(b BatchInfo) {
		to.next = b.LastOffset + 1
		newest.raise(b.MaxTimestamp, b.LastOffset)
	})
	if err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	s.mu.Lock()
	sealed := s.sealed.Load()
	s.sealed.Store(false)
	s.mu.Unlock()
	f, err := s.writable()
	if err == nil {
		if err = s.settleIndexes(to); err == nil {
			err = s.cut(f, to, newest)
		}
		s.wrote(f)
	}
	if err != nil {
		s.mu.Lock()
		s.sealed.Store(sealed)
		s.mu.Unlock()
		return fmt.Errorf("truncate %s: %w", s.Path(), err)
	}
	return nil
}

// cut removes the bytes behind to. cuts is odd until file, end and index are changed, so that
// readers that find it odd wait for mu and read again: see readStable.
func (s *Segment) cut(f *openFile, to end, newest timestampAt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts.Add(1)
	defer s.cuts.Add(1)
	if err := f.file.Truncate(to.size); err != nil {
		return err
	}
	s.publish(to)
	s.index.cut(to.size, to.next, s.base)
	s.checked.cut(to.size)
	s.positions.clear()
	s.newest, s.newestKnown, s.alloc, s.zeroed = newest, true, to.size, min(s.zeroed, to.size)
	if to.size == 0 {
		s.firstTs.Store(math.MinInt64)
	}
	return nil
}
