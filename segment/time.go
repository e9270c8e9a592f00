package segment

import (
	"errors"

	"github.com/stratalog/strata/record"
)

// loadNewest finds the largest timestamp of a clean segment: the last entry of its time index, if the batches agree.
func (s *Segment) loadNewest() error {
	if s.Size() == 0 {
		return nil
	}
	return s.steady(func(f *openFile, at end) error {
		newest, ok, err := s.lastTime(f, at)
		if err != nil {
			return err
		}
		if !ok {
			newest = timestampAt{-1, s.base}
			if err := s.headers(f, place{0, s.base}, at, newest.raise); err != nil {
				return err
			}
		}
		s.mu.Lock()
		s.newest = newest
		s.mu.Unlock()
		if !ok {
			s.repairIndex(f, at)
		}
		return nil
	})
}

// raise enters the timestamp of a batch. It is a callback for headers.
func (t *timestampAt) raise(b *record.Batch, _ place) bool {
	if b.MaxTimestamp > t.ts {
		*t = timestampAt{b.MaxTimestamp, b.LastOffset()}
	}
	return true
}

// lastTime reads the last entry of the time index. ok is false if that cannot be the largest timestamp: its batch says otherwise, or one
// near the end of the segment does.
func (s *Segment) lastTime(f *openFile, at end) (t timestampAt, ok bool, err error) {
	const all = 1<<63 - 1
	e, ok, err := s.entryOlder(all)
	if err != nil || !ok {
		return t, false, err
	}
	if ok, _, err = s.confirmTime(f, e, at); err != nil || !ok {
		return t, false, err
	}
	t = timestampAt{e.ts, s.base + int64(e.rel)}
	tail, wrong, err := s.indexed(f, at.next, at)
	if err != nil || wrong || at.size-tail.pos > s.sparse() {
		return t, false, err
	}
	later := t
	if err := s.headers(f, tail, at, later.raise); err != nil {
		return t, false, ignoreCorrupt(err)
	}
	return t, later == t, nil
}

// ignoreCorrupt leaves damage to those who read it.
func ignoreCorrupt(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return nil
	}
	return err
}

// confirmTime reports whether the batch that e names has e's timestamp, and returns its place.
func (s *Segment) confirmTime(f *openFile, e timeEntry, at end) (bool, place, error) {
	offset := s.base + int64(e.rel)
	if e.rel < 0 || e.ts < 0 || offset >= at.next {
		return false, place{}, nil
	}
	p, err := s.locate(f, offset, at)
	if err != nil || p.pos >= at.size {
		return false, place{}, ignoreCorrupt(err)
	}
	b, err := s.headerAt(f, p, at)
	if err != nil {
		return false, place{}, ignoreCorrupt(err)
	}
	return b.LastOffset() == offset && b.MaxTimestamp == e.ts, p, nil
}

// OffsetAt returns the first record with a timestamp of ts (ms) or later and an offset of least or more; ok is false if there is none.
// Control records count, as in Kafka.
func (s *Segment) OffsetAt(ts, least int64) (offset, found int64, ok bool, err error) {
	if newest, _ := s.MaxTimestamp(); newest < ts {
		return 0, 0, false, nil
	}
	err = s.steady(func(f *openFile, at end) error {
		offset, found, ok = 0, 0, false
		from, err := s.placeOlder(f, ts, at)
		if err != nil {
			return err
		}
		var inner error
		err = s.headers(f, from, at, func(b *record.Batch, p place) bool {
			if b.MaxTimestamp < ts || b.LastOffset() < least {
				return true
			}
			offset, found, ok, inner = s.firstAt(f, p, b.Size(), at, ts, least)
			return !ok && inner == nil
		})
		return errors.Join(inner, err)
	})
	return offset, found, ok, err
}

// placeOlder returns a place before which every timestamp is below ts, by the time index.
func (s *Segment) placeOlder(f *openFile, ts int64, at end) (place, error) {
	e, ok, err := s.entryOlder(ts)
	if err != nil || !ok {
		return place{0, s.base}, err
	}
	ok, p, err := s.confirmTime(f, e, at)
	if err != nil {
		return place{}, err
	}
	if !ok {
		s.repairIndex(f, at)
		return place{0, s.base}, nil
	}
	return p, nil
}

// firstAt looks for the record in one batch.
func (s *Segment) firstAt(f *openFile, p place, size int, at end, ts, least int64) (offset, found int64, ok bool, err error) {
	raw, err := s.readBatches(f, nil, p, size, -1, at)
	if err != nil {
		return 0, 0, false, err
	}
	b, err := record.ParseUnverified(raw)
	if err != nil {
		return 0, 0, false, err
	}
	for r, err := range b.All() {
		if err != nil {
			return 0, 0, false, s.corrupt(p.pos, p.least, err.Error())
		}
		if ms := r.Timestamp.UnixMilli(); ms >= ts && r.Offset >= least {
			return r.Offset, ms, true, nil
		}
	}
	return 0, 0, false, nil
}
