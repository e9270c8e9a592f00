package segment

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/record"
)

// headerAt returns the header of the batch at p.
func (s *Segment) headerAt(f *openFile, p place, at end) (record.Batch, error) {
	if at.size-p.pos < record.HeaderSize {
		return record.Batch{}, s.corrupt(p.pos, p.least, fmt.Sprintf("%d bytes are no batch", at.size-p.pos))
	}
	buf := make([]byte, record.HeaderSize)
	if _, err := s.readSome(f, buf, p); err != nil {
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
			// Small batches: the next one begins right here.
			if p.pos-from <= int64(have) && have == len(buf) && len(buf) < scanBytes {
				buf = make([]byte, scanBytes)
			}
			n := int(min(int64(len(buf)), at.size-p.pos))
			if n < record.HeaderSize {
				return s.corrupt(p.pos, p.least, fmt.Sprintf("%d bytes are no batch", n))
			}
			if p.pos-from > int64(have) { // a large batch was skipped: the next one may be as large
				n = min(n, 4096)
			}
			read, err := s.readSome(f, buf[:n], p)
			if err != nil && (read < record.HeaderSize || !errors.Is(err, ErrCorrupt)) {
				return err
			}
			from, have = p.pos, read
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

// Headers calls fn with the header and position of each batch, starting with the batch at file
// position pos, until fn returns false. The Batch is valid during the call; its Bytes are only the
// header.
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

// parseHeader reads the header of the batch at p and checks what its CRC does not cover: its
// offsets must lie between its neighbours', and the batch must end where the segment does or
// before.
func (s *Segment) parseHeader(b []byte, p place, at end) (h record.Batch, err error) {
	err = s.parseInto(&h, b[:min(len(b), record.HeaderSize)], p, at)
	return h, err
}

// parseInto is parseHeader in place; h has the whole batch if b has.
func (s *Segment) parseInto(h *record.Batch, b []byte, p place, at end) error {
	err := record.ParseInto(h, b)
	switch {
	case err != nil:
		return s.corrupt(p.pos, p.least, err.Error())
	case h.BaseOffset < p.least:
		return s.corrupt(p.pos, p.least, fmt.Sprintf("base offset %d where %d or more is expected", h.BaseOffset, p.least))
	case h.BaseOffset >= at.next || h.LastOffset() >= at.next:
		return s.corrupt(p.pos, p.least, fmt.Sprintf("last offset %d in a segment that ends at %d", h.LastOffset(), at.next))
	case p.pos+int64(h.Size()) > at.size:
		return s.corrupt(p.pos, p.least, fmt.Sprintf("length of %d bytes, %d are left", h.Size(), at.size-p.pos))
	}
	return nil
}
