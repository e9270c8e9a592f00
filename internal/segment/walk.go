package segment

import (
	"errors"
	"fmt"
	"math"

	"github.com/stratalog/strata/record"
)

// A walk reads the batches of a file that may end anywhere. It gathers the results that recovery
// publishes: the end of the last good batch, the indexes, the largest timestamp.
type walk struct {
	window
	o     RecoverOptions
	old   index // as found in the files
	began int64 // position of the first batch looked at

	pos     int64        // behind the last good batch
	batch   record.Batch // the one at pos; in here, since it would be one allocation each
	last    int64        // position of the last good batch; -1: none was looked at
	next    int64        // offset after it
	epoch   int32        // its leader epoch; they never fall
	newest  timestampAt
	first   int64 // MaxTimestamp of the segment's first batch; math.MinInt64: it was not looked at
	index   index
	batches int
}

// checksCRC reports whether CRCs are checked, and so every byte read.
func (o *RecoverOptions) checksCRC() bool { return o.Full || !o.SameBoot }

// run walks up to the first bytes that are no good batch. bad is the reason why they are none; nil
// at the end of the file.
func (w *walk) run() (bad error, err error) {
	for w.pos < w.size {
		reason, err := w.look()
		if err != nil || reason != nil {
			return reason, err
		}
		if w.o.Batch != nil {
			if err := w.o.Batch(&w.batch); err != nil {
				return nil, err
			}
		}
		w.take(&w.batch)
	}
	return nil, nil
}

// take enters b, the good batch at w.pos, and moves w.pos behind it.
func (w *walk) take(b *record.Batch) {
	w.newest.raise(b.MaxTimestamp, b.LastOffset())
	if w.pos == 0 {
		w.first = b.MaxTimestamp
	}
	switch {
	case w.index.since < 0: // the batch of the index entry that the walk began at
		w.index.since = b.Size()
	case w.index.since > w.s.cfg.IndexIntervalBytes:
		w.index.add(InfoOf(b), w.s.base, w.pos, w.newest, w.s.cfg.IndexIntervalBytes)
	default: // as add would, most of the time
		w.index.since += b.Size()
	}
	w.batches++
	w.last = w.pos
	w.pos += int64(b.Size())
	w.next = b.NextOffset()
	w.epoch = max(w.epoch, b.LeaderEpoch)
}

// look parses the bytes at w.pos to w.batch. reason is nil for a good batch; err is a failure to
// read them.
func (w *walk) look() (reason, err error) {
	if err := w.parse(record.HeaderSize); err != nil {
		return noBatch(err)
	}
	b := &w.batch
	switch {
	case !w.follows(b) || w.o.Gapless && b.BaseOffset != w.next || w.o.Below > 0 && b.LastOffset() >= w.o.Below:
		return fmt.Errorf("offsets %d to %d where %d is next", b.BaseOffset, b.LastOffset(), w.next), nil
	case b.LeaderEpoch >= 0 && b.LeaderEpoch < w.epoch: // left over from batches that were cut off
		return fmt.Errorf("leader epoch %d behind %d", b.LeaderEpoch, w.epoch), nil
	case w.stale(b):
		return fmt.Errorf("leader epoch %d at an offset of a later one", b.LeaderEpoch), nil
	case w.pos+int64(b.Size()) > w.size:
		return errEnd, nil
	case !w.o.checksCRC():
		return nil, nil
	}
	if n := b.Size(); len(b.Bytes()) < n { // only its header was in the window
		if err := w.parse(n); err != nil {
			return noBatch(err)
		}
	}
	return b.VerifyCRC(), nil
}

// parse parses the batch at w.pos to w.batch. At least n bytes of it must be there: errEnd if the
// file ends before.
func (w *walk) parse(n int) error {
	if !w.holds(w.pos, n) {
		if err := w.fill(w.pos, n); err != nil {
			return err
		}
	}
	return record.ParseInto(&w.batch, w.at(w.pos))
}

// noBatch separates the error of a failed parse into a fault of the bytes and a failure to read
// them.
func noBatch(err error) (reason, failure error) {
	if errors.Is(err, errEnd) || errors.Is(err, record.ErrCorrupt) && !errors.As(err, new(*CorruptError)) {
		return err, nil
	}
	return nil, err
}

// stale reports whether b was cut before a later leader began. A power cut can restore the former
// bytes of free space.
func (w *walk) stale(b *record.Batch) bool {
	at := w.s.cfg.EpochAt
	return at != nil && !w.o.SameBoot && w.next >= w.o.RecoveryPoint && b.LeaderEpoch >= 0 && at(b.BaseOffset) > b.LeaderEpoch
}

// follows reports whether the offsets of b can come next.
func (w *walk) follows(b *record.Batch) bool {
	return b.BaseOffset >= w.next && !w.s.Overflows(b.BaseOffset) && !w.s.Overflows(b.LastOffset())
}

// finish cuts the bytes behind the last good batch, unless they are to stay. It publishes the end
// and the results of the walk.
func (w *walk) finish(rep *Report) error {
	s := w.s
	rep.Batches, rep.ScannedBytes, rep.CutAt = w.batches, w.pos-w.began, w.pos
	alloc := w.size
	if w.pos < w.size && !w.o.KeepTail && !s.cfg.ReadOnly {
		if err := w.f.file.Truncate(w.pos); err != nil {
			return fmt.Errorf("cut %s to %d bytes: %w", s.Path(), w.pos, err)
		}
		alloc = w.pos
	}
	if w.began == 0 {
		rep.RebuiltIndex = w.compareIndexes()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.index.gen = s.index.gen + 1
	s.index = w.index
	s.alloc = alloc
	if w.first != math.MinInt64 {
		s.firstTs.Store(w.first)
	}
	s.newest, s.newestKnown = w.newest, true
	s.unsynced = s.unsynced || !s.cfg.ReadOnly
	// Leader epochs are checked by the first read: a wrong one is no reason to cut.
	if w.o.checksCRC() && s.cfg.EpochAt == nil {
		s.checked.add(0, w.pos)
	}
	s.publish(end{w.pos, w.next})
	return nil
}

// compareIndexes compares the indexes made from all batches with the index files, and notes the
// entries to write. It reports whether the files had other entries.
func (w *walk) compareIndexes() (rebuilt bool) {
	if w.old.same(&w.index) {
		w.index.flushedOffsets, w.index.flushedTimes = w.old.flushedOffsets, min(w.old.flushedTimes, len(w.index.times))
		return false
	}
	w.index.rewritten = true
	return len(w.index.offsets)+len(w.index.times)+len(w.old.offsets)+len(w.old.times) > 0
}

// fewIndexEntries is how many entries of an active segment Recover does not write.
const fewIndexEntries = 16

// keepsIndex reports whether the entries may stay in memory: few, and none in the files that
// contradict them.
func (w *walk) keepsIndex() bool {
	x := &w.index
	return len(x.offsets) <= fewIndexEntries && len(x.times) <= fewIndexEntries && (!x.rewritten || len(w.old.offsets)+len(w.old.times) == 0)
}
