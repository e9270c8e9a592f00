package segment

import (
	"fmt"
	"math"
)

// Append writes whole batches at the end in one vectored write and publishes them. bufs has the
// bytes of all batches, in order; they are borrowed, and bufs itself is changed. Offsets must grow
// from NextOffset on. If they do not, if an index cannot express them (Overflows), or if the file
// would exceed 2 GiB, Append returns ErrInvalidBatches and writes nothing.
//
// After a failed write the file is cut back to its last valid batch, and Append returns the error;
// later appends succeed when the disk works again. If the cut fails too, or a Sync has failed,
// every later Append returns the same error. Only the writer may call it.
func (s *Segment) Append(bufs [][]byte, batches []BatchInfo) error {
	f, err := s.writable()
	if err != nil {
		return err
	}
	at := s.published()
	total, err := s.checkBatches(at, batches)
	if err != nil || total == 0 {
		s.wrote(f)
		return err
	}
	n, err := f.file.WritevAt(bufs, at.size)
	if err != nil || n != total {
		return s.appendFailed(f, at.size, n, total, err)
	}
	s.enter(f, at.size, batches)
	return nil
}

// AppendOne is Append of one batch, with a fast path for the usual case. p and b are borrowed. Only
// the writer may call it.
func (s *Segment) AppendOne(p []byte, b *BatchInfo) error {
	at := s.published()
	s.mu.Lock()
	f := s.active
	if f == nil || s.refusalLocked() != nil || at.size == 0 || s.checked.own.Load() < 0 || b.Size != len(p) || !s.follows(b, at) {
		s.mu.Unlock()
		return s.Append([][]byte{p}, []BatchInfo{*b})
	}
	s.writing = true
	s.changes++
	s.mu.Unlock()
	n, err := f.file.WriteAt(p, at.size)
	if err != nil || n != len(p) {
		return s.appendFailed(f, at.size, n, len(p), err)
	}
	to := end{at.size + int64(n), b.LastOffset + 1}
	s.mu.Lock()
	s.enterLocked(b, at.size)
	flush, taken := s.wroteAllLocked(f, to)
	s.mu.Unlock()
	s.publish(to)
	if flush || taken {
		s.afterAppend(f, flush, taken)
	}
	return nil
}

// follows reports whether a batch may come next in a segment that ends at at.
func (s *Segment) follows(b *BatchInfo, at end) bool {
	return b.Size > 0 && b.BaseOffset >= at.next && b.LastOffset >= b.BaseOffset && !s.Overflows(b.LastOffset) && at.size+int64(b.Size) <= math.MaxInt32
}

// checkBatches returns the bytes of batches that may follow at.
func (s *Segment) checkBatches(at end, batches []BatchInfo) (total int, err error) {
	for i := range batches {
		b := &batches[i]
		if !s.follows(b, at) {
			return 0, fmt.Errorf("%w: %d bytes with offsets %d to %d, where %d is next at byte %d, base %d", ErrInvalidBatches, b.Size, b.BaseOffset, b.LastOffset, at.next, at.size, s.base)
		}
		at = end{at.size + int64(b.Size), b.LastOffset + 1}
		total += b.Size
	}
	return total, nil
}

// enter makes batches known that are in the file f from pos on, and ends writable.
func (s *Segment) enter(f *openFile, pos int64, batches []BatchInfo) {
	if s.checked.own.Load() < 0 {
		s.checked.own.Store(pos)
	}
	s.mu.Lock()
	if pos == 0 {
		s.firstTs.Store(batches[0].MaxTimestamp)
	}
	for i := range batches {
		s.enterLocked(&batches[i], pos)
		pos += int64(batches[i].Size)
	}
	to := end{pos, batches[len(batches)-1].LastOffset + 1}
	flush, taken := s.wroteAllLocked(f, to)
	s.mu.Unlock()
	s.publish(to)
	if flush || taken {
		s.afterAppend(f, flush, taken)
	}
}

// enterLocked enters a batch that is in the file at pos into the indexes.
func (s *Segment) enterLocked(b *BatchInfo, pos int64) {
	s.newest.raise(b.MaxTimestamp, b.LastOffset)
	s.index.add(*b, s.base, pos, s.newest, s.cfg.IndexIntervalBytes)
}

// wroteAllLocked is wroteLocked after a write that succeeded and ends at to. flush reports
// whether there are enough index entries for a write to their files.
func (s *Segment) wroteAllLocked(f *openFile, to end) (flush, taken bool) {
	s.alloc = max(s.alloc, to.size)
	return len(s.index.offsets)-s.index.flushedOffsets >= flushIndexEntries, s.wroteLocked(f)
}

// afterAppend does the rare work after an append. It releases f if the segment lost it during the
// write, and flushes the index.
func (s *Segment) afterAppend(f *openFile, flush, taken bool) {
	if taken {
		_ = s.cfg.Files.release(f)
	}
	if flush {
		// The batches are in the file: a failure to write hints is no failure to append. Recover
		// finds them missing.
		_ = s.flushIndex(flushStep)
	}
}

// appendFailed cuts the bytes of a failed write at pos, and ends writable.
func (s *Segment) appendFailed(f *openFile, pos int64, n, total int, err error) error {
	if err == nil {
		err = fmt.Errorf("wrote %d of %d bytes", n, total)
	}
	err = s.cutBack(f, pos, fmt.Errorf("append to %s: %w", s.Path(), err))
	s.wrote(f)
	return err
}
