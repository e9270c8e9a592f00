package segment

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/stratalog/strata/internal/uncleared"
	"github.com/stratalog/strata/record"
)

// place is where a batch begins: its base offset is least or higher.
type place struct{ pos, least int64 }

// ReadAt appends whole batches to dst, starting with the batch that contains offset, or the next
// one above it: about maxBytes, but at least one batch, and none that ends after file position
// limit (-1: Size). At the end of the segment it returns dst. Bytes that are read for the first
// time since Open are verified with their CRC, and fields that the CRC does not cover are compared
// with the neighbouring batches.
//
// The first batch may begin below offset. The result is dst, without an allocation if it has room,
// or a larger copy of it, owned by the caller. ReadAt returns the whole batches before damage, and
// a *CorruptError if there is none. It never waits.
func (s *Segment) ReadAt(dst []byte, offset int64, maxBytes int, limit int64) ([]byte, error) {
	out := dst
	err := s.readStable(func(f *openFile, at end) error {
		p, err := s.locate(f, offset, at)
		if err == nil {
			out, err = s.readBatches(f, dst, p, maxBytes, limit, at, stopAtDamage)
		}
		return err
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// ReadRange appends the whole batches of [pos, pos+n) to dst, at least one, as ReadAt does. It
// returns a *CorruptError if any of them is damaged. pos must be the position of a batch.
func (s *Segment) ReadRange(dst []byte, pos int64, n int) ([]byte, error) {
	out := dst
	err := s.readStable(func(f *openFile, at end) (err error) {
		out, err = s.readBatches(f, dst, place{pos, s.base}, n, -1, at, failAtDamage)
		return err
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// readBatches reads from the batch at p on, in a segment that ends at at.
func (s *Segment) readBatches(f *openFile, dst []byte, p place, maxBytes int, limit int64, at end, do onDamage) ([]byte, error) {
	if limit < 0 || limit > at.size {
		limit = at.size
	}
	if p.pos >= limit {
		return dst, nil
	}
	want := int(min(int64(max(maxBytes, record.HeaderSize)), limit-p.pos))
	start := len(dst)
	dst = uncleared.Grow(dst, want)[:start+want]
	if want < record.HeaderSize && limit < at.size {
		return dst[:start], nil
	}
	r := batchReader{s: s, f: f, at: at, limit: limit, dst: dst, start: start, first: p.pos, next: p, sure: p}
	// A file that this process does not write may have been replaced since.
	r.check = s.cfg.ReadOnly || !s.checked.covers(p.pos, p.pos+int64(want))
	if err := r.run(do); err != nil {
		return nil, err
	}
	if r.offset() > 0 && s.cuts.Load() == 0 { // a position in a segment that was ever cut could outlive the cut
		s.positions.set(r.next.least-s.base, r.next.pos)
	}
	return r.dst[:start+r.offset()], nil
}

// verify checks the CRC and the leader epoch of one whole batch, whose header was checked.
func (s *Segment) verify(h *record.Batch, p place) error {
	if err := h.VerifyCRC(); err != nil {
		return s.corrupt(p.pos, p.least, err.Error())
	}
	return s.epochOf(h, p)
}

// epochOf checks the leader epoch of a batch.
func (s *Segment) epochOf(b *record.Batch, p place) error {
	if s.cfg.EpochAt == nil {
		return nil
	}
	if epoch := s.cfg.EpochAt(b.BaseOffset); epoch >= 0 && epoch != b.LeaderEpoch {
		return s.corrupt(p.pos, p.least, fmt.Sprintf("leader epoch %d where %d was the leader's", b.LeaderEpoch, epoch))
	}
	return nil
}

// readFull fills p from pos. A file that ends early is damage: callers request only written bytes.
func (s *Segment) readFull(f *openFile, p []byte, pos int64) error {
	_, err := s.readSome(f, p, place{pos, s.base})
	return err
}

// readSome is readFull that returns how many bytes it has read. Damage is reported at the offset of
// the place.
func (s *Segment) readSome(f *openFile, p []byte, at place) (n int, err error) {
	n, err = f.readAt(p, at.pos)
	switch eof := err == nil || errors.Is(err, io.EOF); {
	case eof && n == len(p):
		return n, nil
	case eof:
		return n, s.corrupt(at.pos+int64(n), at.least, fmt.Sprintf("file ends, %d bytes are missing", len(p)-n))
	}
	return 0, fmt.Errorf("read %s at byte %d: %w", s.Path(), at.pos, err)
}

// Batches yields every batch, verified, starting with the batch that contains from, up to the end
// of the segment at the time the iteration reaches it. A batch is valid until the next one; an
// error is yielded once.
func (s *Segment) Batches(from int64) iter.Seq2[*record.Batch, error] {
	return BatchesOf(from, func(dst []byte, from int64) ([]byte, error) {
		if from >= s.NextOffset() {
			return dst, nil
		}
		return s.ReadAt(dst, from, 256<<10, -1)
	})
}

// BatchesOf yields the batches that read appends to dst, which must be verified, starting with the
// batch that contains offset from, until read appends none. A batch is valid until the next one; an
// error is yielded once.
func BatchesOf(from int64, read func(dst []byte, from int64) ([]byte, error)) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		var buf []byte
		for next := from; ; {
			p, err := read(buf[:0], next)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(p) == 0 {
				return
			}
			buf = p
			for len(p) > 0 {
				b, err := record.ParseUnverified(p)
				if err != nil {
					yield(nil, err)
					return
				}
				p, next = p[b.Size():], b.NextOffset()
				if !yield(&b, nil) {
					return
				}
			}
		}
	}
}
