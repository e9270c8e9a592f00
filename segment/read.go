package segment

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/stratalog/strata/record"
)

// scanBytes is the step of header scans, which only look at 61 bytes of each batch.
const scanBytes = 64 << 10

// ReadAt appends whole batches to dst: from the one that holds offset, or the next one above it, about maxBytes but at least one batch, none
// at or behind file position end (-1: Size). At the end it returns dst. Bytes read for the first time since Open are checked against their CRCs.
//
// The first batch may begin below offset. The result is dst or a larger copy of it, owned by the caller.
// It returns *CorruptError for damage, and never waits.
func (s *Segment) ReadAt(dst []byte, offset int64, maxBytes int, end int64) ([]byte, error) {
	size := s.Size()
	if end < 0 || end > size {
		end = size
	}
	var out []byte
	err := s.withFile(func(f *openFile) error {
		pos, err := s.locate(f, offset, size)
		if err != nil {
			return err
		}
		out, err = s.readBatches(f, dst, pos, maxBytes, end)
		return err
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Locate returns the position of the batch that holds offset, or of the next one above it; Size if there is none.
func (s *Segment) Locate(offset int64) (pos int64, err error) {
	err = s.withFile(func(f *openFile) error {
		pos, err = s.locate(f, offset, s.Size())
		return err
	})
	return pos, err
}

// ReadRange appends the whole batches of [pos, pos+n) to dst, at least one, as ReadAt does. pos must be the position of a batch.
func (s *Segment) ReadRange(dst []byte, pos int64, n int) (out []byte, err error) {
	err = s.withFile(func(f *openFile) error {
		out, err = s.readBatches(f, dst, pos, n, s.Size())
		return err
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Lookup returns the position of the last index entry at or below offset: a place at or before the batch that holds it.
func (s *Segment) Lookup(offset int64) (pos int64, err error) {
	if s.Size() == 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.loadIndexLocked(); err != nil {
		return 0, err
	}
	return s.index.before(offset, s.base), nil
}

// locate finds the first batch whose last offset is at or above offset, below file position size.
func (s *Segment) locate(f *openFile, offset, size int64) (int64, error) {
	if offset <= s.base {
		return 0, nil
	}
	if offset >= s.NextOffset() {
		return size, nil
	}
	if h := s.hint.Load(); h != nil && h.offset == offset && h.pos <= size {
		return h.pos, nil
	}
	pos, err := s.Lookup(offset)
	if err != nil {
		return 0, err
	}
	found := int64(-1)
	fresh := pos > 0 // an index entry is a hint: what lies there must be a batch that could be there
	err = s.headers(f, pos, size, func(b *record.Batch, at int64) bool {
		if b.LastOffset() >= offset {
			found = at
			return false
		}
		return true
	}, s.base)
	if err != nil && fresh { // the index is damaged, or the batches are: scan from the start to tell
		found, err = -1, s.headers(f, 0, size, func(b *record.Batch, at int64) bool {
			found = at
			return b.LastOffset() < offset
		}, s.base)
	}
	if err != nil {
		return 0, err
	}
	if found < 0 {
		return size, nil
	}
	return found, nil
}

// readBatches reads from the batch at pos on.
func (s *Segment) readBatches(f *openFile, dst []byte, pos int64, maxBytes int, end int64) ([]byte, error) {
	if pos >= end {
		return dst, nil
	}
	want := int(min(int64(maxBytes), end-pos))
	want = int(min(int64(max(want, record.HeaderSize)), end-pos))
	start := len(dst)
	dst = slices.Grow(dst, want)[:start+want]
	if err := s.readFull(f, dst[start:], pos); err != nil {
		return nil, err
	}
	first, err := s.parseHeader(dst[start:], pos, s.base, end)
	if err != nil {
		return nil, err
	}
	if first.Size() > want { // a batch larger than max: at least one is promised
		dst = slices.Grow(dst[:start], first.Size())[:start+first.Size()]
		if err := s.readFull(f, dst[start+want:], pos+int64(want)); err != nil {
			return nil, err
		}
	}
	n, next, err := s.wholeBatches(dst[start:], pos, end)
	if err != nil {
		return nil, err
	}
	s.hint.Store(&position{next, pos + int64(n)})
	return dst[:start+n], nil
}

// wholeBatches walks the batches of p, which lie at pos, and returns the bytes of the whole ones and the offset after them.
func (s *Segment) wholeBatches(p []byte, pos, end int64) (n int, next int64, err error) {
	next = s.base
	check := !s.checked.covers(pos, min(pos+int64(len(p)), end))
	for n < len(p) {
		if len(p)-n < record.HeaderSize {
			break
		}
		b, err := s.parseHeader(p[n:], pos+int64(n), next, end)
		if err != nil {
			return 0, 0, err
		}
		if b.Size() > len(p)-n {
			break
		}
		if check {
			if _, _, err := record.Parse(p[n : n+b.Size()]); err != nil {
				return 0, 0, s.corrupt(pos+int64(n), next, err.Error())
			}
		}
		n += b.Size()
		next = b.NextOffset()
	}
	if check {
		s.checked.add(pos, pos+int64(n))
	}
	return n, next, nil
}

// parseHeader reads the header of the batch at pos and checks what its CRC does not cover against its neighbours: the base offset must not be
// below least, the batch must end at or before file position end.
func (s *Segment) parseHeader(p []byte, pos, least, end int64) (record.Batch, error) {
	b, err := record.ParseHeader(p)
	switch {
	case err != nil:
		return b, s.corrupt(pos, least, err.Error())
	case b.BaseOffset < least || b.BaseOffset < s.base:
		return b, s.corrupt(pos, least, fmt.Sprintf("base offset %d where %d or more is expected", b.BaseOffset, least))
	case b.LastOffset() >= s.NextOffset() && s.NextOffset() > s.base:
		return b, s.corrupt(pos, least, fmt.Sprintf("last offset %d in a segment that ends at %d", b.LastOffset(), s.NextOffset()))
	case pos+int64(b.Size()) > end && end > 0:
		return b, s.corrupt(pos, least, fmt.Sprintf("length of %d bytes, %d are left", b.Size(), end-pos))
	}
	return b, nil
}

func (s *Segment) corrupt(pos, offset int64, reason string) error {
	return &CorruptError{s.Path(), pos, offset, reason}
}

// readFull fills p from pos. A file that ends early is damage: the caller asks only for bytes that were written.
func (s *Segment) readFull(f *openFile, p []byte, pos int64) error {
	n, err := f.file.ReadAt(p, pos)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return s.corrupt(pos+int64(n), s.base, fmt.Sprintf("file ends, %d bytes are missing", len(p)-n))
	}
	return fmt.Errorf("read %s at byte %d: %w", s.Path(), pos, err)
}

// headers calls fn with the header of each batch from pos up to end, until it returns false. Only headers are looked at: Bytes is the header.
func (s *Segment) headers(f *openFile, pos, end int64, fn func(b *record.Batch, pos int64) bool, least int64) error {
	buf := make([]byte, min(scanBytes, end-pos))
	from, have := pos, 0 // buf holds [from, from+have)
	for pos < end {
		if pos < from || pos+record.HeaderSize > from+int64(have) {
			n := int(min(int64(len(buf)), end-pos))
			if n < record.HeaderSize {
				return s.corrupt(pos, least, fmt.Sprintf("%d bytes are no batch", n))
			}
			if err := s.readFull(f, buf[:n], pos); err != nil {
				return err
			}
			from, have = pos, n
		}
		b, err := s.parseHeader(buf[pos-from:have], pos, least, end)
		if err != nil {
			return err
		}
		if !fn(&b, pos) {
			return nil
		}
		least, pos = b.NextOffset(), pos+int64(b.Size())
		if gap := pos - from; gap > int64(have) && int64(b.Size()) > scanBytes/4 {
			have = 0 // large batches: one header at a time
			buf = buf[:min(len(buf), 4096)]
		}
	}
	return nil
}

// headerAt returns the header of the batch at pos.
func (s *Segment) headerAt(pos int64) (b record.Batch, err error) {
	err = s.withFile(func(f *openFile) error {
		return s.headers(f, pos, s.Size(), func(h *record.Batch, _ int64) bool {
			b = *h
			return false
		}, s.base)
	})
	return b, err
}

// Headers calls fn with the header and position of each batch from the one at file position pos on, until fn returns false.
// The Batch is valid during the call; its Bytes are the header alone.
func (s *Segment) Headers(pos int64, fn func(b *record.Batch, pos int64) bool) error {
	return s.withFile(func(f *openFile) error { return s.headers(f, pos, s.Size(), fn, s.base) })
}

// Batches yields every batch from the one that holds offset from on, verified, up to the end as it is when it gets there.
// The batches are valid until the next one; an error is yielded once.
func (s *Segment) Batches(from int64) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		var buf []byte
		for from < s.NextOffset() {
			p, err := s.ReadAt(buf[:0], from, 256<<10, -1)
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
				if !yield(&b, nil) {
					return
				}
				p, from = p[b.Size():], b.NextOffset()
			}
		}
	}
}
