package log

import (
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// OffsetAt returns the offset of the first record with timestamp t or later, or EndOffset if there
// is none. Errors are those of OffsetForTimestamp.
func (l *Log) OffsetAt(t time.Time) (int64, error) {
	offset, _, err := l.OffsetForTimestamp(t)
	if offset < 0 && err == nil {
		return l.segments.end.Load(), nil
	}
	return offset, err
}

// OffsetForTimestamp returns the offset and the timestamp in ms of the first record with timestamp
// t or later, or -1 and -1 if there is none. It is exact, also while retention or compaction
// replaces segments that it reads. It returns ErrClosed, a *CorruptError for damage in segments
// that it reads, or errors of the file system.
func (l *Log) OffsetForTimestamp(t time.Time) (offset, ts int64, err error) {
	offset, ts, err = l.offsetAt(t.UnixMilli())
	if err != nil {
		return -1, -1, fmt.Errorf("offset at %s in %s: %w", t, l.path, err)
	}
	return offset, ts, nil
}

func (l *Log) offsetAt(ms int64) (offset, ts int64, err error) {
	offset, ts = -1, -1
	err = l.eachSegment(func(s *segment.Segment, from int64) (bool, error) {
		found, at, ok, err := s.OffsetAt(ms, from)
		if ok {
			offset, ts = found, at
		}
		return !ok, l.vouch(max(from, s.Base()), err)
	})
	return offset, ts, err
}

// TimestampAt returns the offset and the timestamp in ms of the first record at offset from or
// later, or -1 and -1 if there is none below offset upTo. Both are exact to one batch: if from is
// inside a batch, the timestamp is the one of the batch's first record. Batches without records,
// which compaction leaves, and control batches do not count. The timestamp is negative if the
// records have none.
//
// Only indexes and headers of batches are read. After a compaction that has marked tombstones for
// deletion the timestamp is the largest one of the batch. upTo must not be inside a batch. Errors
// are those of OffsetForTimestamp.
func (l *Log) TimestampAt(from, upTo int64) (offset, ts int64, err error) {
	offset, ts = -1, -1
	err = l.eachSegment(func(s *segment.Segment, start int64) (more bool, err error) {
		if s.Base() >= upTo {
			return false, nil
		}
		start = max(start, from)
		h, ok, err := s.FirstRecords(start, upTo)
		if ok {
			offset, ts = max(h.BaseOffset, start), h.BaseTimestamp
			if h.HasDeleteHorizon() || h.TimestampType() == record.LogAppendTime {
				ts = h.MaxTimestamp
			}
		}
		return !ok, l.vouch(max(start, s.Base()), err)
	})
	if err != nil {
		return -1, -1, fmt.Errorf("timestamp at offset %d of %s: %w", from, l.path, err)
	}
	return offset, ts, nil
}

// MaxTimestampOffset returns the offset and the timestamp in ms of the first record that has the
// largest timestamp, or -1 and -1 for an empty log. Records that DeleteRecords has hidden do not
// count. Errors are those of OffsetForTimestamp.
func (l *Log) MaxTimestampOffset() (offset, ts int64, err error) {
	for {
		start, largest := l.segments.start.Load(), int64(-1)
		err = l.eachSegment(func(s *segment.Segment, from int64) (bool, error) {
			newest, err := s.MaxTimestampFrom(from)
			largest = max(largest, newest)
			return true, l.vouch(max(from, s.Base()), err)
		})
		if err == nil && largest >= 0 {
			offset, ts, err = l.offsetAt(largest)
		} else {
			offset, ts = -1, -1
		}
		if err != nil {
			return -1, -1, fmt.Errorf("largest timestamp in %s: %w", l.path, err)
		}
		if offset >= 0 || largest < 0 || l.segments.start.Load() == start { // else it was deleted in between
			return offset, ts, nil
		}
	}
}

// eachSegment calls fn for the segments that have readable records, in order, until it returns
// false. fn reads records from offset from on. If a segment is removed meanwhile, it is looked up
// in the new list: the segment that replaced it has the same offsets.
func (l *Log) eachSegment(fn func(s *segment.Segment, from int64) (more bool, err error)) error {
	from := int64(-1)
	for {
		if l.closing.Load() {
			return ErrClosed
		}
		list := l.list()
		from = max(from, l.segments.start.Load())
		i := max(floor(list, from), 0)
		for ; i < len(list); i++ {
			s := list[i]
			if !s.Acquire() {
				break
			}
			more, err := fn(s, from)
			if relErr := s.Release(); err == nil {
				err = relErr
			}
			if err != nil || !more {
				return err
			}
			if i+1 < len(list) {
				from = max(from, list[i+1].Base())
			}
		}
		if i == len(list) {
			return nil
		}
		if err := l.durability.failed(); err != nil { // a swap failed half-way: there is no new list
			return err
		}
	}
}
