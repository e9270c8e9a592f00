package segment

import (
	"errors"
	"fmt"
	"math"

	"github.com/stratalog/strata/record"
)

// MaxTimestamp returns the largest timestamp in ms and the last offset of the first batch that has
// it, or -1 and the base if there is none. The first call after opening a clean segment reads it
// from disk. If the disk fails or the segment is damaged, MaxTimestamp returns -1, the base and the
// error, and the next call reads again. The largest timestamp of a part would be wrong for the
// whole.
func (s *Segment) MaxTimestamp() (ts, offset int64, err error) {
	if err := s.loadNewest(); err != nil {
		return -1, s.base, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest.ts, s.newest.offset, nil
}

// MaxTimestampFrom is MaxTimestamp of the records with offset least or higher; it returns -1 if
// there is none.
func (s *Segment) MaxTimestampFrom(least int64) (ts int64, err error) {
	if least <= s.base {
		ts, _, err = s.MaxTimestamp()
		return ts, err
	}
	err = s.readStable(func(f *openFile, at end) error {
		ts = -1
		from, err := s.locate(f, least, at)
		if err != nil {
			return err
		}
		var inner error
		err = s.headers(f, from, at, func(b *record.Batch, p place) bool {
			switch {
			case b.MaxTimestamp <= ts:
			case b.BaseOffset >= least:
				ts = b.MaxTimestamp
			default:
				inner = s.eachRecord(f, p, b.Size(), at, func(r *record.Record) bool {
					if r.Offset >= least {
						ts = max(ts, r.Timestamp.UnixMilli())
					}
					return true
				})
			}
			return inner == nil
		})
		return errors.Join(inner, err)
	})
	return ts, err
}

// loadNewest finds the largest timestamp of a clean segment: the last entry of its time index, if
// no batch contradicts it. Where timestamps grow, that entry is of the last batch, and no other
// needs to be looked at.
func (s *Segment) loadNewest() error {
	s.mu.Lock()
	known := s.newestKnown
	s.mu.Unlock()
	if known {
		return nil
	}
	return s.readStable(func(f *openFile, at end) error {
		newest, from, err := s.lastTime(f, at)
		if err != nil {
			return err
		}
		indexed := newest
		err = s.headers(f, from, at, func(b *record.Batch, _ place) bool {
			newest.raise(b.MaxTimestamp, b.LastOffset())
			return true
		})
		s.mu.Lock()
		if !s.newestKnown && err == nil {
			s.newest, s.newestKnown = newest, true
		}
		s.mu.Unlock()
		if err == nil && newest != indexed {
			s.repairIndex(f, at)
		}
		return err
	})
}

// lastTime returns the last entry of the time index and the place of its batch, before which there
// is no larger timestamp; no timestamp and the beginning of the file if there is none or the batch
// contradicts it.
func (s *Segment) lastTime(f *openFile, at end) (timestampAt, place, error) {
	const all = 1<<63 - 1
	none, begin := timestampAt{-1, s.base}, place{0, s.base}
	e, ok, err := s.entryOlder(all)
	if err != nil || !ok {
		return none, begin, err
	}
	ok, p, err := s.confirmTime(f, e, at)
	if err != nil || !ok {
		return none, begin, err
	}
	return timestampAt{e.ts, s.base + int64(e.rel)}, p, nil
}

// ignoreCorrupt drops errors of damage: a read of the damaged bytes reports them.
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

// OffsetAt returns the first record with timestamp ts (ms) or later and offset least or higher; ok
// is false if there is none. Control records count, as in Kafka.
func (s *Segment) OffsetAt(ts, least int64) (offset, found int64, ok bool, err error) {
	if newest, _, err := s.MaxTimestamp(); err != nil || newest < ts {
		return 0, 0, false, err
	}
	err = s.readStable(func(f *openFile, at end) error {
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
	err = s.eachRecord(f, p, size, at, func(r *record.Record) bool {
		if ms := r.Timestamp.UnixMilli(); ms >= ts && r.Offset >= least {
			offset, found, ok = r.Offset, ms, true
		}
		return !ok
	})
	return offset, found, ok, err
}

// eachRecord calls fn for the records of one batch until it returns false. The log accepted the
// batch, so however large it is decompressed, up to 2 GiB, it is no damage.
func (s *Segment) eachRecord(f *openFile, p place, size int, at end, fn func(r *record.Record) bool) error {
	raw, err := s.readBatches(f, nil, p, size, -1, at, failAtDamage)
	if err != nil {
		return err
	}
	b, err := record.ParseUnverified(raw)
	if err != nil {
		return err
	}
	it, err := b.Records(math.MaxInt32)
	for err == nil {
		var r record.Record
		var more bool
		if more, err = it.Next(&r); err == nil && (!more || !fn(&r)) {
			return nil
		}
	}
	if errors.Is(err, record.ErrTooLarge) {
		return fmt.Errorf("batch at offset %d of %s: %w", b.BaseOffset, s.Path(), err)
	}
	return s.corrupt(p.pos, p.least, err.Error())
}
