package segment

import "github.com/stratalog/strata/record"

// repairIndex builds both indexes again from the batches below at. It is best effort: without an
// index readers scan, which is slow and not wrong. If it is running already, it returns at once.
func (s *Segment) repairIndex(f *openFile, at end) {
	if !s.repairing.CompareAndSwap(false, true) {
		return
	}
	defer s.repairing.Store(false)
	now, newest, err := s.indexFromBatches(f, at)
	if err != nil {
		return
	}
	s.indexing.Lock() // Remove does not give the names to another segment meanwhile
	defer s.indexing.Unlock()
	w, ok := s.installIndex(now, newest, at)
	if !ok {
		return
	}
	err = w.write(s, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushedLocked(w, err)
	s.dropIndexLocked()
}

// installIndex makes the index of the batches below at the segment's. It returns the
// bytes to write; false: none.
func (s *Segment) installIndex(now index, newest timestampAt, at end) (w indexWrite, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cuts.Load() != 0 && s.published().size < at.size {
		return w, false
	}
	if s.index.loaded { // the writer continues
		now.takeNewer(&s.index, at, s.base)
	}
	now.gen, now.removed, now.rewritten = s.index.gen+1, s.index.removed, true
	s.index = now
	if s.active != nil && !s.sealed.Load() || s.cfg.ReadOnly || now.removed {
		return w, false
	}
	s.index.addTime(newest, s.base)
	return s.pendingLocked(), true
}

// indexFromBatches returns the index that the batches below at should have, and their largest
// timestamp.
func (s *Segment) indexFromBatches(f *openFile, at end) (x index, newest timestampAt, err error) {
	x, newest = index{loaded: true}, timestampAt{-1, s.base}
	err = s.headers(f, place{0, s.base}, at, func(b *record.Batch, p place) bool {
		newest.raise(b.MaxTimestamp, b.LastOffset())
		x.add(InfoOf(b), s.base, p.pos, newest, s.cfg.IndexIntervalBytes)
		return true
	})
	return x, newest, err
}

// takeNewer adds the entries that old has of batches at or behind at.
func (x *index) takeNewer(old *index, at end, base int64) {
	for _, e := range old.offsets {
		if int64(e.pos) >= at.size {
			x.offsets = append(x.offsets, e)
		}
	}
	for _, e := range old.times {
		if base+int64(e.rel) >= at.next {
			x.addTime(timestampAt{e.ts, base + int64(e.rel)}, base)
		}
	}
	x.since = old.since
}
