package segment

import (
	"errors"

	"github.com/stratalog/strata/record"
)

// scanBytes is the step of header scans, which only look at 61 bytes of each batch.
const scanBytes = 64 << 10

// sparseBytes is how far a lookup may have to scan before it concludes that entries are missing in
// the index. Those of Kafka before 4.1 have one entry for all batches of an append.
const sparseBytes = 4 << 20

func (s *Segment) sparse() int64 { return max(sparseBytes, 4*int64(s.cfg.IndexIntervalBytes)) }

// Locate returns the file position of the batch that contains offset, or of the next batch above
// it; Size if there is none.
func (s *Segment) Locate(offset int64) (pos int64, err error) {
	err = s.readStable(func(f *openFile, at end) error {
		p, err := s.locate(f, offset, at)
		pos = p.pos
		return err
	})
	return pos, err
}

// Lookup returns a file position at or shortly before the batch that contains offset: the position
// of the last index entry at or below offset.
func (s *Segment) Lookup(offset int64) (pos int64, err error) {
	err = s.readStable(func(f *openFile, at end) error {
		p, _, err := s.indexed(f, offset, at)
		pos = p.pos
		return err
	})
	return pos, err
}

// FirstRecords returns the header of the first batch with records, of offsets in [from, upTo), that
// is no control batch. ok is false if there is none.
func (s *Segment) FirstRecords(from, upTo int64) (h record.Batch, ok bool, err error) {
	err = s.readStable(func(f *openFile, at end) error {
		ok = false
		p, err := s.locate(f, from, at)
		if err != nil {
			return err
		}
		return s.headers(f, p, at, func(b *record.Batch, _ place) bool {
			if b.BaseOffset >= upTo {
				return false
			}
			if ok = b.RecordCount > 0 && !b.IsControl(); ok {
				h = *b
			}
			return !ok
		})
	})
	return h, ok && err == nil, err
}

// readStable calls fn with the end of the segment, and again if batches were cut meanwhile.
//
// cuts is a sequence lock: Truncate makes it odd, changes file, end and index, and makes it even
// again, all with mu. A reader notes it, reads without a lock, and looks again:
//
//  1. even and unchanged: no truncation ran between the two looks. The result is good.
//  2. anything else: the result may mix two states, and so may an error. The reader waits for mu,
//     which ends the truncation under way, and reads again.
func (s *Segment) readStable(fn func(f *openFile, at end) error) error {
	return s.withFile(func(f *openFile) error {
		for {
			cuts := s.cuts.Load()
			if err := fn(f, s.published()); !s.cutSince(cuts) {
				return err
			}
		}
	})
}

// cutSince reports whether Truncate took batches away since cuts was read, or is about to. It waits
// for its end.
func (s *Segment) cutSince(cuts uint32) bool {
	if cuts&1 == 0 && s.cuts.Load() == cuts {
		return false
	}
	s.mu.Lock() // Truncate holds it
	defer s.mu.Unlock()
	return true
}

// locate finds the first batch whose last offset is at or above offset, in a segment that ends at
// at.
func (s *Segment) locate(f *openFile, offset int64, at end) (place, error) {
	if offset <= s.base || at.size == 0 {
		return place{0, s.base}, nil
	}
	if offset >= at.next {
		return place{at.size, at.next}, nil
	}
	if s.cuts.Load() == 0 {
		if pos, ok := s.positions.get(offset - s.base); ok && pos <= at.size {
			return place{pos, offset}, nil
		}
	}
	p, wrong, err := s.indexed(f, offset, at)
	if err != nil {
		return place{}, err
	}
	from := p
	found, n := place{-1, 0}, 0
	err = s.headers(f, p, at, func(b *record.Batch, q place) bool {
		n++
		if b.LastOffset() >= offset {
			found = q
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return place{}, err
	case found.pos < 0: // a gap at the end of a compacted segment
		found = place{at.size, at.next}
	}
	if wrong || n > 2 && found.pos-from.pos > s.sparse() {
		s.repairIndex(f, at)
	}
	return found, nil
}

// indexed returns the place that the index gives for offset, the beginning of the file if it gives
// none. An entry counts if its batch has the entry's last offset: then no batch before has a
// higher offset. wrong is set if an entry did not count.
func (s *Segment) indexed(f *openFile, offset int64, at end) (p place, wrong bool, err error) {
	e, ok, err := s.entryBefore(offset)
	if err != nil || !ok {
		return place{0, s.base}, false, err
	}
	ok, p, err = s.confirm(f, e, at)
	if err != nil {
		return place{}, false, err
	}
	if !ok {
		return place{0, s.base}, true, nil
	}
	return p, false, nil
}

// confirm reports whether e points at a batch with e's last offset, and returns the batch's place.
func (s *Segment) confirm(f *openFile, e offsetEntry, at end) (bool, place, error) {
	if e.pos <= 0 || int64(e.pos) >= at.size || e.rel < 0 {
		return false, place{}, nil
	}
	b, err := s.headerAt(f, place{int64(e.pos), s.base}, at)
	if errors.Is(err, ErrCorrupt) {
		return false, place{}, nil
	}
	if err != nil || b.LastOffset() != s.base+int64(e.rel) {
		return false, place{}, err
	}
	return true, place{int64(e.pos), b.BaseOffset}, nil
}
