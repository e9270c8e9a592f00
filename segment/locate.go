package segment

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/record"
)

// scanBytes is the step of header scans, which only look at 61 bytes of each batch.
const scanBytes = 64 << 10

// sparseBytes is how far a lookup may have to scan before it concludes that entries are missing in
// the index. Those of Kafka before 4.1 have one entry for all batches of an append.
const sparseBytes = 4 << 20

func (s *Segment) sparse() int64 { return max(sparseBytes, 4*int64(s.cfg.IndexIntervalBytes)) }

// Locate returns the position of the batch that holds offset, or of the next one above it; Size if
// there is none.
func (s *Segment) Locate(offset int64) (pos int64, err error) {
	err = s.steady(func(f *openFile, at end) error {
		p, err := s.locate(f, offset, at)
		pos = p.pos
		return err
	})
	return pos, err
}

// Lookup returns a position at or before the batch that holds offset, close to it: that of the last
// index entry at or below offset.
func (s *Segment) Lookup(offset int64) (pos int64, err error) {
	err = s.steady(func(f *openFile, at end) error {
		p, _, err := s.indexed(f, offset, at)
		pos = p.pos
		return err
	})
	return pos, err
}

// steady calls fn until no batches are taken away meanwhile.
func (s *Segment) steady(fn func(f *openFile, at end) error) error {
	f, err := s.cfg.Files.acquire(s)
	if err != nil {
		return err
	}
	for again := true; again; {
		cuts := s.cuts.Load()
		err = fn(f, s.published())
		again = s.cutSince(cuts)
	}
	if released := s.cfg.Files.release(f); err == nil {
		err = released
	}
	return err
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
		if pos, ok := s.hints.get(offset - s.base); ok && pos <= at.size {
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
// none. An entry is believed if the batch it points at ends as it says: then no batch before has a
// higher offset. wrong says that one was not.
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

// confirm reports whether e points at a batch that ends as e says, and returns its place.
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

// headerAt returns the header of the batch at p.
func (s *Segment) headerAt(f *openFile, p place, at end) (record.Batch, error) {
	if at.size-p.pos < record.HeaderSize {
		return record.Batch{}, s.corrupt(p.pos, p.least, fmt.Sprintf("%d bytes are no batch", at.size-p.pos))
	}
	buf := make([]byte, record.HeaderSize)
	if err := s.readFull(f, buf, p.pos); err != nil {
		return record.Batch{}, err
	}
	return s.parseHeader(buf, p, at)
}

// headers calls fn with the header of each batch from p up to the end, until it returns false. Only
// headers are looked at: Bytes is the header.
func (s *Segment) headers(f *openFile, p place, at end, fn func(b *record.Batch, p place) bool) error {
	buf := make([]byte, min(4096, max(at.size-p.pos, 0))) // grows while batches are small
	from, have := p.pos, 0                                // buf holds [from, from+have)
	for p.pos < at.size {
		if p.pos+record.HeaderSize > from+int64(have) {
			if p.pos-from <= int64(have) && have == len(buf) && len(buf) < scanBytes { // the next batch begins right here
				buf = make([]byte, scanBytes)
			}
			n := int(min(int64(len(buf)), at.size-p.pos))
			if n < record.HeaderSize {
				return s.corrupt(p.pos, p.least, fmt.Sprintf("%d bytes are no batch", n))
			}
			if p.pos-from > int64(have) { // a large batch was skipped: the next one may be as large
				n = min(n, 4096)
			}
			if err := s.readFull(f, buf[:n], p.pos); err != nil {
				return err
			}
			from, have = p.pos, n
		}
		b, err := s.parseHeader(buf[p.pos-from:have], p, at)
		if err != nil {
			return err
		}
		if !fn(&b, p) {
			return nil
		}
		p = place{p.pos + int64(b.Size()), b.NextOffset()}
	}
	return nil
}

// Headers calls fn with the header and position of each batch from the one at file position pos on,
// until fn returns false. The Batch is valid during the call; its Bytes are the header alone.
func (s *Segment) Headers(pos int64, fn func(b *record.Batch, pos int64) bool) error {
	f, err := s.cfg.Files.acquire(s)
	if err != nil {
		return err
	}
	err = s.headers(f, place{pos, s.base}, s.published(), func(b *record.Batch, p place) bool { return fn(b, p.pos) })
	if released := s.cfg.Files.release(f); err == nil {
		err = released
	}
	return err
}

// headersUpTo calls fn for each batch below file position pos.
func (s *Segment) headersUpTo(pos int64, fn func(b BatchInfo)) error {
	return s.Headers(0, func(b *record.Batch, at int64) bool {
		if at < pos {
			fn(InfoOf(b))
		}
		return at < pos
	})
}

// repairIndex builds both indexes anew from the batches below at. It is best effort: without an
// index readers scan, which is slow and not wrong.
func (s *Segment) repairIndex(f *openFile, at end) {
	if !s.repairing.CompareAndSwap(false, true) {
		return
	}
	defer s.repairing.Store(false)
	now, newest := index{loaded: true}, timestampAt{-1, s.base}
	err := s.headers(f, place{0, s.base}, at, func(b *record.Batch, p place) bool {
		info := InfoOf(b)
		if info.MaxTimestamp > newest.ts {
			newest = timestampAt{info.MaxTimestamp, info.LastOffset}
		}
		now.add(info, s.base, p.pos, newest, s.cfg.IndexIntervalBytes)
		return true
	})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cuts.Load() != 0 && s.published().size < at.size {
		return
	}
	x := &s.index
	if x.loaded { // the writer goes on: keep what it added since
		for _, e := range x.offsets {
			if int64(e.pos) >= at.size {
				now.offsets = append(now.offsets, e)
			}
		}
		for _, e := range x.times {
			if s.base+int64(e.rel) >= at.next {
				now.addTime(timestampAt{e.ts, s.base + int64(e.rel)}, s.base)
			}
		}
		now.since = x.since
	}
	now.gen, now.removed, now.rewritten = x.gen+1, x.removed, true
	s.index = now
	if s.active != nil && !s.sealed.Load() || s.cfg.ReadOnly || now.removed {
		return
	}
	s.index.addTime(newest, s.base)
	w := s.pendingLocked()
	s.flushedLocked(w, w.write(s, true)) // under mu: Remove must not give the names to another segment meanwhile
	s.dropIndexLocked()
}
