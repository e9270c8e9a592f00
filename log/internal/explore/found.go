package explore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// found is the content of a log.
type found struct {
	start, end int64
	recs       []rec
	offsets    []int64 // of recs
	bases      []int64 // first and last offset of the batch of each record
	lasts      []int64
}

// equal compares the bounds, the records and their offsets.
func (f *found) equal(g *found) bool {
	return f.start == g.start && f.end == g.end && slices.Equal(f.recs, g.recs) && slices.Equal(f.offsets, g.offsets)
}

func (f *found) String() string {
	return fmt.Sprintf("[%d,%d) with %d records", f.start, f.end, len(f.recs))
}

// readLog reads a log from its start to its end, unsynced records included.
func readLog(l *log.Log) (*found, error) {
	f := &found{start: l.StartOffset(), end: l.EndOffset()}
	var buf []byte
	for next := f.start; next < f.end; {
		var err error
		if buf, err = l.ReadUpTo(buf[:0], next, 4000, f.end); err != nil {
			return f, fmt.Errorf("read at %d of [%d,%d): %w", next, f.start, f.end, err)
		}
		if len(buf) == 0 {
			return f, nil // compaction has removed the last ones
		}
		for rest := buf; len(rest) > 0; {
			b, n, err := record.Parse(rest)
			if err != nil {
				return f, fmt.Errorf("read returned a bad batch at %d: %w", next, err)
			}
			if at := l.Epochs().At(b.BaseOffset); b.BaseOffset >= f.start && at != b.LeaderEpoch && at >= 0 {
				return f, fmt.Errorf("batch at %d has leader epoch %d, the log has %d", b.BaseOffset, b.LeaderEpoch, at)
			}
			if err := f.add(b, next); err != nil {
				return f, err
			}
			if b.NextOffset() <= next {
				return f, fmt.Errorf("batch at %d is returned again for %d", b.BaseOffset, next)
			}
			next, rest = b.NextOffset(), rest[n:]
		}
	}
	return f, nil
}

// add appends the records of a batch that are at offset from or above.
func (f *found) add(b *record.Batch, from int64) error {
	for r, err := range b.All() {
		if err != nil {
			return fmt.Errorf("batch at %d: %w", b.BaseOffset, err)
		}
		if r.Offset < from {
			continue // the batch begins below the start offset
		}
		one, err := recOf(&r)
		if err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		f.recs, f.offsets = append(f.recs, one), append(f.offsets, r.Offset)
		f.bases, f.lasts = append(f.bases, b.BaseOffset), append(f.lasts, b.NextOffset()-1)
	}
	return nil
}

// check compares the content that was found with the expected content.
func (e *expectation) check(f *found) error {
	if e.before != nil && !e.killed && e.before.check(f) == nil {
		return nil
	}
	switch {
	case e.removing && f.end == 0: // all of it or nothing
		return nil
	case f.start < e.low || f.start > max(min(e.high, f.end), e.low):
		return fmt.Errorf("starts at %d, outside [%d,%d]", f.start, e.low, e.high)
	case f.end < e.end:
		return fmt.Errorf("ends at %d, offsets below %d were given", f.end, e.end)
	}
	if err := e.checkRecords(f); err != nil {
		return err
	}
	last := int64(-1)
	if n := len(f.offsets); n > 0 {
		last = f.offsets[n-1]
	}
	for o, s := range e.slots {
		if o < f.start || s.shadowed {
			continue
		}
		if _, ok := slices.BinarySearch(f.offsets, o); ok {
			continue
		}
		if s.must {
			return fmt.Errorf("lost: record %d (%s) at offset %d was confirmed; the log holds %v", s.id, keyOf(s.id), o, f)
		}
		if o < last && o < e.cut {
			return fmt.Errorf("hole: record %d (%s) at offset %d is missing, there are later ones up to %d", s.id, keyOf(s.id), o, last)
		}
	}
	return nil
}

// checkRecords returns an error if a record is not where it may be, or is there twice.
func (e *expectation) checkRecords(f *found) error {
	at := make(map[int64]int64, len(f.recs))
	for i, r := range f.recs {
		if err := e.checkRecord(f.offsets[i], r); err != nil {
			return err
		}
		if first, ok := at[r.id]; ok {
			return fmt.Errorf("record %d is at offset %d and at %d", r.id, first, f.offsets[i])
		}
		at[r.id] = f.offsets[i]
	}
	return nil
}

// checkRecord returns an error if record r may not be at offset o.
func (e *expectation) checkRecord(o int64, r rec) error {
	want, ok := e.slots[o]
	if ok && want.id == r.id {
		if want.ts != r.ts {
			return fmt.Errorf("offset %d: record %d has time %d, it was %d", o, r.id, r.ts, want.ts)
		}
		return nil
	}
	if p, ok := e.pending[r.id]; ok && p.ts == r.ts {
		return nil
	}
	if why := e.gone[r.id]; why != "" {
		return fmt.Errorf("offset %d: record %d was %s, and is back", o, r.id, why)
	}
	if ok {
		return fmt.Errorf("offset %d: record %d was confirmed to be there, it is %d", o, want.id, r.id)
	}
	if r.id < e.floor {
		return fmt.Errorf("offset %d: record %d was lost in an earlier crash, and is back", o, r.id)
	}
	return fmt.Errorf("offset %d: record %d was never given to this log, or not for there", o, r.id)
}

// checkEpochs checks that the log has the newest confirmed epoch. A log is exempt if a power cut
// has removed all records that DeleteRecords had left: it starts over without them.
func (e *expectation) checkEpochs(l *log.Log) error {
	latest, _ := l.Epochs().Latest()
	anew := l.StartOffset() == l.EndOffset() && l.StartOffset() >= e.epochAt
	if e.removing && l.EndOffset() == 0 || e.before != nil && !e.killed {
		return nil
	}
	if e.epoch >= 0 && e.epochAt <= l.EndOffset() && !anew && int64(latest) < e.epoch {
		return fmt.Errorf("epoch %d began at %d, the newest known one is %d", e.epoch, e.epochAt, latest)
	}
	return nil
}

// checkTimes compares time lookups with the records that a reader finds.
func checkTimes(l *log.Log, f *found) error {
	if len(f.recs) == 0 {
		return nil
	}
	newest := 0
	for i, r := range f.recs {
		if r.ts > f.recs[newest].ts {
			newest = i
		}
	}
	for _, i := range []int{0, len(f.recs) / 3, len(f.recs) / 2, len(f.recs) - 1, newest} {
		for _, ts := range []int64{f.recs[i].ts, f.recs[i].ts + 1} {
			want := int64(-1)
			if j := slices.IndexFunc(f.recs, func(r rec) bool { return r.ts >= ts }); j >= 0 {
				want = f.offsets[j]
			}
			got, _, err := l.OffsetForTimestamp(time.UnixMilli(ts))
			if err != nil || got != want {
				return errors.Join(fmt.Errorf("time %d is looked up at offset %d, it is at %d of %v", ts, got, want, f), err)
			}
		}
	}
	wantAt, wantTs := f.offsets[newest], f.recs[newest].ts
	if wantTs < 0 { // as Kafka: no timestamp
		wantAt, wantTs = -1, -1
	}
	offset, ts, err := l.MaxTimestampOffset()
	if err != nil || offset != wantAt || ts != wantTs {
		return errors.Join(fmt.Errorf("the log returned the largest timestamp %d at %d, it is %d at %d", ts, offset, wantTs, wantAt), err)
	}
	return nil
}
