package segment

import (
	"errors"
	"math"

	"github.com/stratalog/strata/record"
)

// start begins a walk over the first size bytes: at the last index entry that the batches confirm,
// or at the beginning of the file if CRCs are checked, all batches requested, or entries wrong.
func (w *walk) start(size int64) error {
	s := w.s
	w.size, w.pos, w.began, w.last, w.next, w.epoch, w.batches, w.have = size, 0, 0, -1, s.base, -1, 0, 0
	w.newest, w.first, w.index = timestampAt{-1, s.base}, math.MinInt64, index{loaded: true}
	if w.o.checksCRC() || w.o.Batch != nil {
		return nil
	}
	// No crash explains more than two entries that are wrong.
	for n, wrong := len(w.old.offsets), 0; n > 0 && wrong <= 2; n-- {
		e := w.old.offsets[n-1]
		if int64(e.pos)+record.HeaderSize > size {
			continue // of a batch that is not there
		}
		_, ok, err := w.confirms(e)
		if err != nil {
			return err
		}
		if ok {
			return w.startAt(n)
		}
		wrong++
	}
	return nil
}

// startAt begins at entry n-1 of the offset index or before it: where the time index ends, so that
// entries missing there are found. It begins at the beginning of the file if entries of either
// index turn out wrong.
func (w *walk) startAt(n int) error {
	if ok, err := w.sampleConfirms(n); err != nil || !ok {
		return err
	}
	times := timesUpTo(w.old.times, w.old.offsets[n-1].rel)
	n, err := w.timesReach(n, times)
	if err != nil || n == 0 {
		return err
	}
	e := w.old.offsets[n-1]
	b, ok, err := w.confirms(e)
	if times = timesUpTo(times, e.rel); err != nil || !ok || len(times) == 0 {
		return err
	}
	last := times[len(times)-1]
	if ok, err := w.confirmsTime(last, n); err != nil || !ok || b.MaxTimestamp > last.ts {
		return err
	}
	w.index = w.old
	w.index.offsets, w.index.times = w.old.offsets[:n:n], times[:len(times):len(times)]
	w.index.rewritten = w.old.rewritten || n < w.old.flushedOffsets || len(times) < w.old.flushedTimes
	w.index.since = math.MinInt32 // the entry's own batch comes first, without another entry
	w.pos, w.next, w.began = int64(e.pos), b.BaseOffset, int64(e.pos)
	w.newest = timestampAt{last.ts, w.s.base + int64(last.rel)}
	return nil
}

// sampleConfirms reports whether the batches confirm some of the first n-1 offset entries, spread
// over all of them.
func (w *walk) sampleConfirms(n int) (bool, error) {
	const sample = 8
	for i := 1; i <= sample && n > 1; i++ {
		if _, ok, err := w.confirms(w.old.offsets[(n-1)*i/(sample+1)]); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// timesReach returns how many of the first n offset entries lie at or before the last of times; 0
// if there is none, or no batch confirms it.
func (w *walk) timesReach(n int, times []timeEntry) (int, error) {
	if len(times) == 0 {
		return 0, nil
	}
	last := times[len(times)-1]
	if ok, err := w.confirmsTime(last, n); err != nil || !ok {
		return 0, err
	}
	for n > 0 && w.old.offsets[n-1].rel > last.rel {
		n--
	}
	return n, nil
}

// timesUpTo returns the entries of batches that end at or before rel.
func timesUpTo(times []timeEntry, rel int32) []timeEntry {
	for len(times) > 0 && times[len(times)-1].rel > rel {
		times = times[:len(times)-1]
	}
	return times
}

// confirms reports whether the batch at e's position has e's last offset.
func (w *walk) confirms(e offsetEntry) (record.Batch, bool, error) {
	b, err := w.header(int64(e.pos))
	if errors.Is(err, errEnd) || errors.Is(err, record.ErrCorrupt) {
		return b, false, nil
	}
	return b, err == nil && b.LastOffset() == w.s.base+int64(e.rel) && b.BaseOffset >= w.s.base, err
}

// confirmsTime reports whether the batch that e names has e's timestamp. It walks the headers from
// the last of the first n offset entries before it.
func (w *walk) confirmsTime(e timeEntry, n int) (bool, error) {
	pos, before := int64(0), w.s.base
	x := index{offsets: w.old.offsets[:n]}
	if o, ok := x.before(int64(e.rel)); ok {
		pos = int64(o.pos)
	}
	for {
		b, err := w.header(pos)
		switch {
		case errors.Is(err, errEnd) || errors.Is(err, record.ErrCorrupt):
			return false, nil
		case err != nil:
			return false, err
		case b.BaseOffset < before:
			return false, nil
		case b.LastOffset() >= w.s.base+int64(e.rel):
			return b.LastOffset() == w.s.base+int64(e.rel) && b.MaxTimestamp == e.ts, nil
		}
		before, pos = b.NextOffset(), pos+int64(b.Size())
	}
}
