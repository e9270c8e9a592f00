package segment

import (
	"errors"
	"fmt"
	"math"
	"syscall"
)

// Append writes whole batches at the end in one vectored write and publishes them. bufs hold the
// bytes of all batches, in order; they are borrowed, and bufs itself is changed. Offsets must grow
// from NextOffset on: if they do not, or an index cannot express them (Overflows) or the file would
// pass 2 GiB, it returns ErrInvalidBatches and writes nothing.
//
// After a failed write the file is cut back to its last good batch and the error returned;
// appending may go on when the disk does. If the cut fails too, or a Sync has failed, every later
// Append returns that same error. For the writer.
func (s *Segment) Append(bufs [][]byte, batches []BatchInfo) error {
	f, err := s.writable()
	if err != nil {
		return err
	}
	at := s.published()
	total, err := s.check(at, batches)
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

// AppendOne is Append of one batch, in less time: what seldom happens it leaves to Append. p and b
// are borrowed. For the writer.
func (s *Segment) AppendOne(p []byte, b *BatchInfo) error {
	at := s.published()
	s.mu.Lock()
	f := s.active
	if f == nil || s.refusalLocked() != nil || at.size == 0 || s.checked.own.Load() < 0 ||
		b.Size != len(p) || b.Size == 0 || b.BaseOffset < at.next || b.LastOffset < b.BaseOffset || s.Overflows(b.LastOffset) || at.size+int64(b.Size) > math.MaxInt32 {
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
	pos := at.size
	s.mu.Lock()
	if b.MaxTimestamp > s.newest.ts {
		s.newest = timestampAt{b.MaxTimestamp, b.LastOffset}
	}
	s.index.add(*b, s.base, pos, s.newest, s.cfg.IndexIntervalBytes)
	pos += int64(n)
	s.alloc = max(s.alloc, pos)
	flush := len(s.index.offsets)-s.index.flushedO >= flushIndexEntries
	taken := s.wroteLocked(f)
	s.mu.Unlock()
	s.publish(end{pos, b.LastOffset + 1})
	if flush || taken {
		s.afterAppend(f, flush, taken)
	}
	return nil
}

// check returns the bytes of batches that may follow at.
func (s *Segment) check(at end, batches []BatchInfo) (total int, err error) {
	next := at.next
	for i := range batches {
		b := &batches[i]
		if b.Size <= 0 || b.BaseOffset < next || b.LastOffset < b.BaseOffset || s.Overflows(b.LastOffset) {
			return 0, fmt.Errorf("%w: %d bytes with offsets %d to %d, next is %d, base %d", ErrInvalidBatches, b.Size, b.BaseOffset, b.LastOffset, next, s.base)
		}
		next = b.LastOffset + 1
		total += b.Size
	}
	if at.size+int64(total) > math.MaxInt32 {
		return 0, fmt.Errorf("%w: %d bytes at %d", ErrInvalidBatches, total, at.size)
	}
	return total, nil
}

// enter makes batches known that are in the file f from pos on, and ends writable.
func (s *Segment) enter(f *openFile, pos int64, batches []BatchInfo) {
	if s.checked.own.Load() < 0 {
		s.checked.own.Store(pos)
	}
	s.mu.Lock()
	for i := range batches {
		b := &batches[i]
		if b.MaxTimestamp > s.newest.ts {
			s.newest = timestampAt{b.MaxTimestamp, b.LastOffset}
		}
		if pos == 0 {
			s.firstTs.Store(b.MaxTimestamp)
		}
		s.index.add(*b, s.base, pos, s.newest, s.cfg.IndexIntervalBytes)
		pos += int64(b.Size)
	}
	s.alloc = max(s.alloc, pos)
	pending := len(s.index.offsets) - s.index.flushedO
	taken := s.wroteLocked(f)
	s.mu.Unlock()
	s.publish(end{pos, batches[len(batches)-1].LastOffset + 1})
	if flush := pending >= flushIndexEntries; flush || taken {
		s.afterAppend(f, flush, taken)
	}
}

// afterAppend does what seldom is to be done.
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

// appendFailed cuts back what a failed write at pos has left, and ends writable.
func (s *Segment) appendFailed(f *openFile, pos int64, n, total int, err error) error {
	if err == nil {
		err = fmt.Errorf("wrote %d of %d bytes", n, total)
	}
	err = s.cutBack(f, pos, fmt.Errorf("append to %s: %w", s.Path(), err))
	s.wrote(f)
	return err
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

// wroteLocked is wrote; if taken, the file was taken away from the segment during the write and
// must be released.
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

// Preallocate reserves disk space for step bytes more if less than half a step is left, so that
// syncs need not write the file's size. A zero tail is a normal end of a segment. Where the file
// system cannot, or has no room for a whole step, nothing happens. For the writer.
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
		// What is to be appended may fit all the same. What was reserved of the step is given back.
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

// TrimTail gives preallocated space back and lets the descriptor go: for a log that is idle.
// Everything must be synced before. For the writer.
func (s *Segment) TrimTail() error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.trim(); err != nil {
		return err
	}
	return s.letGo()
}

// trim cuts the preallocated tail of a segment that was written to.
func (s *Segment) trim() error {
	s.mu.Lock()
	reserved, alloc := s.active != nil || s.lent, s.alloc
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
	s.alloc, s.zeroed, s.lent = size, min(s.zeroed, size), false
	return nil
}

// Truncate removes the batch that holds offset and everything behind it, so that NextOffset is
// offset or less. A sealed segment can be written to again. It does not sync. If it fails the
// segment is as it was, except for entries of the transaction index. For the writer.
func (s *Segment) Truncate(offset int64) error {
	pos, err := s.Locate(offset)
	if err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	to, newest := end{pos, s.base}, timestampAt{-1, s.base}
	err = s.headersUpTo(pos, func(b BatchInfo) {
		to.next = b.LastOffset + 1
		if b.MaxTimestamp > newest.ts {
			newest = timestampAt{b.MaxTimestamp, b.LastOffset}
		}
	})
	if err == nil {
		err = s.cutAborted(to.next)
	}
	if err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	s.mu.Lock()
	sealed := s.sealed.Load()
	s.sealed.Store(false)
	s.mu.Unlock()
	f, err := s.writable()
	if err == nil {
		err = s.cut(f, to, newest)
		s.wrote(f)
	}
	if err != nil {
		s.mu.Lock()
		s.sealed.Store(sealed)
		s.mu.Unlock()
		return fmt.Errorf("truncate %s: %w", s.Path(), err)
	}
	return s.flushIndex(flushAll)
}

// cut takes away what is behind to. Readers that meet it look again, and wait for mu then.
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
	s.hints.clear()
	s.newest, s.newestKnown, s.alloc, s.zeroed = newest, true, to.size, min(s.zeroed, to.size)
	if to.size == 0 {
		s.firstTs.Store(math.MinInt64)
	}
	return nil
}
