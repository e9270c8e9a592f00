package log

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// DeleteRecords moves the start of the log to before: records below it cannot be read any more. The
// change is on stable storage when it returns. Clean removes whole segments below the start. It
// returns ErrOffsetOutOfRange if before is above the end; if it is below the start, nothing
// changes.
func (l *Log) DeleteRecords(before int64) error {
	return l.exclusively(func(w *writer) error {
		if err := l.durability.failed(); err != nil {
			return err
		}
		start, end := l.segments.start.Load(), l.segments.end.Load()
		if before > end {
			return fmt.Errorf("%w: delete records before %d, the log ends at %d", ErrOffsetOutOfRange, before, end)
		}
		if before <= start {
			return nil
		}
		if err := w.moveStart(before, l.list(), nil); err != nil {
			return fmt.Errorf("delete records of %s: %w", l.path, err)
		}
		return nil
	})
}

// moveStart makes the log begin at offset with the given segments, durably. The state marks the
// segments in gone as obsolete; the caller removes them.
func (w *writer) moveStart(offset int64, list, gone []*segment.Segment) error {
	l := w.log
	old := l.segments.start.Swap(offset)
	if err := w.writeState(list, false, gone...); err != nil {
		l.segments.start.Store(old)
		return err
	}
	return l.epochs.truncateFromStart(offset)
}

// removeFront removes the first n segments; the log begins at the next one, or later. The active
// segment is never among them.
func (w *writer) removeFront(n int) error {
	l := w.log
	list := l.list()
	gone, kept := list[:n], slices.Clone(list[n:])
	if err := w.moveStart(max(l.segments.start.Load(), kept[0].Base()), kept, gone); err != nil {
		return err
	}
	l.segments.current.Store(&kept)
	var errs []error
	for _, s := range gone {
		l.durability.forget(s)
		errs = append(errs, l.discard(s))
	}
	errs = append(errs, l.dropSnapshotsBefore(kept[0].Base()))
	err := l.cfg.Load().FS.SyncDir(l.path)
	w.unlisted = err != nil // the next state does not name the removed segments: until then their removal must be durable
	return errors.Join(append(errs, err)...)
}

// TruncateTo removes the batches that reach to offset or beyond it. Appends continue at offset, or
// at the base of the batch that contains offset (Kafka's UnifiedLog.truncateTo leaves a gap then).
// They never continue below the start offset, unless offset is below it. An offset below the first
// segment empties the log.
//
// TruncateTo waits for appends in progress. The change is on stable storage when it returns. An
// offset at or above the end removes no batch. Leader epochs that began at offset or later are
// removed in every case: appends without an epoch continue in the newest that is left. TruncateTo
// returns ErrOffsetOutOfRange if offset is negative.
//
// After any other error, Err and EndOffset have the outcome. If Err is set, the next Open finds the
// log complete, or truncated at offset or anywhere above it. If Err is nil and EndOffset has not
// changed, no batch was removed, and none will be.
func (l *Log) TruncateTo(offset int64) error {
	return l.exclusively(func(w *writer) error {
		if err := l.durability.failed(); err != nil { // the end may differ from the files
			return err
		}
		switch {
		case offset < 0:
			return fmt.Errorf("%w: truncate %s to %d", ErrOffsetOutOfRange, l.path, offset)
		case offset >= l.segments.end.Load():
			return w.cutEpochs(offset)
		case offset < l.list()[0].Base():
			return w.restartAt(offset)
		}
		if err := w.truncate(offset); err != nil {
			return fmt.Errorf("truncate %s to %d: %w", l.path, offset, err)
		}
		return nil
	})
}

func (w *writer) truncate(offset int64) error {
	l := w.log
	if err := l.durability.failed(); err != nil {
		return err
	}
	if err := w.markOpen(); err != nil {
		return err
	}
	if err := l.syncNow(); err != nil { // closed segments too: afterwards only the last one is known to be synced
		return err
	}
	if err := w.cutCompaction(offset); err != nil {
		return err
	}
	list := l.list()
	i := floor(list, offset)
	kept, gone := slices.Clone(list[:i+1]), list[i+1:]
	w.gapless = w.gapless && len(gone) == 0 // compaction may have left gaps in a closed one
	last := kept[i]
	end, err := endOfCut(last, offset)
	if err != nil {
		return err
	}
	// The removed batch may have begun below the start. Its deleted records stay deleted.
	if start := l.segments.start.Load(); start <= offset {
		end = max(end, start)
	}
	oldStart, oldEnd, oldDurable, oldGap := l.segments.start.Load(), l.segments.end.Load(), l.durability.offset.Load(), w.unfilled
	w.moveEnd(min(oldStart, end), end, min(oldDurable, end))
	w.unfilled = gap{last.Base(), end} // no batch may be left that ends where the cut is: compaction may have taken those before it
	w.countCut()
	if err := w.announceCut(kept, gone, oldStart); err != nil {
		w.moveEnd(oldStart, oldEnd, oldDurable) // nothing has been cut
		w.unfilled = oldGap
		return w.takeBackCut(err)
	}
	l.aborts.cut(end)
	l.segments.current.Store(&kept)
	l.durability.forget(last) // it takes appends again
	var errs []error
	for _, s := range slices.Backward(gone) {
		l.durability.forget(s)
		errs = append(errs, l.discard(s))
	}
	l.durability.cutTo(end) // again: a sync that began since the first time may have seen segments that were still to go
	errs = append(errs, l.cfg.Load().FS.SyncDir(l.path), last.Truncate(offset), last.Sync())
	if err := errors.Join(errs...); err != nil {
		return l.breakWith(err)
	}
	err = errors.Join(w.cutEpochs(end),
		l.dropSnapshots(func(o int64) bool { return o > end }), lowerCleanerOffset(l.cfg.Load().FS, l.path, end))
	if err == nil {
		// Not before: while a power cut may bring back the markers that were cut off, and a
		// snapshot above them, their entries have to be there.
		err = w.resetAborted(end, nil, false)
	}
	if err == nil && end < oldStart {
		err = w.writeState(kept, false)
	}
	if err != nil {
		return l.breakWith(err)
	}
	w.unfilled.from = last.NextOffset()
	if w.unfilled.from == end {
		w.unfilled = gap{}
		return nil
	}
	return w.roll(end) // the name of a segment keeps the offsets of the gap from being given again
}

// announceCut writes the state of a log that is about to be truncated. Its start stays, even if it
// is above the cut: until the batches are removed, a start at the cut would show deleted records
// again. When they are removed, the next open begins the empty log at that start.
func (w *writer) announceCut(kept, gone []*segment.Segment, start int64) error {
	s := w.stateOf(w.log.cfg.Load(), kept, false)
	s.Start = max(s.Start, start)
	if err := w.storeState(s.With(s.Segments, obsolete(gone))); err != nil {
		return err
	}
	w.removeStrays(kept)
	return nil
}

// takeBackCut writes the state of the complete log again, after the write of the state that
// announces a truncation failed with cause. That state may be on the disk nevertheless. Then the
// next open would remove the segments that it marks as obsolete, with durable records. If
// takeBackCut fails too, it is unknown which of the states is on the disk.
func (w *writer) takeBackCut(cause error) error {
	l := w.log
	if mark, err := readMark(l.cfg.Load().FS, l.path); err == nil && mark.Cuts != w.cuts {
		return cause // it has not: no other state counts this cut
	}
	if err := w.writeState(l.list(), false); err != nil {
		return l.breakWith(errors.Join(cause, err))
	}
	return cause
}

// moveEnd sets the offsets of a log that is cut.
func (w *writer) moveEnd(start, end, durable int64) {
	l := w.log
	l.durability.set(durable)
	l.segments.start.Store(start)
	l.segments.end.Store(end)
}

// endOfCut returns the end offset after a cut at offset: offset itself, or the base of the batch
// of s that contains it, which is removed entirely.
func endOfCut(s *segment.Segment, offset int64) (end int64, err error) {
	if offset >= s.NextOffset() {
		return offset, nil
	}
	pos, err := s.Locate(offset)
	if err != nil {
		return 0, err
	}
	end = offset
	err = s.Headers(pos, func(b *record.Batch, _ int64) bool {
		end = min(end, b.BaseOffset)
		return false
	})
	return end, err
}

// maxEnd is the largest end offset: the offset after it can be computed without an overflow.
const maxEnd = math.MaxInt64 - 1

// TruncateFully removes everything; appends continue at start. A follower calls it if its log ends
// before its leader's starts. It returns ErrOffsetOutOfRange if start is negative or above 2^63 -
// 2.
func (l *Log) TruncateFully(start int64) error {
	return l.TruncateFullyFrom(start, Purged{})
}

// TruncateFullyFrom is TruncateFully for a log that becomes a copy of another one, whose Purged is
// purged. It becomes the Purged of this log, also if a crash leaves the log empty.
func (l *Log) TruncateFullyFrom(start int64, purged Purged) error {
	return l.exclusively(func(w *writer) error {
		return w.restartFrom(start, purged)
	})
}

func (w *writer) restartAt(start int64) error { return w.restartFrom(start, Purged{}) }

func (w *writer) restartFrom(start int64, purged Purged) error {
	l := w.log
	if start < 0 || start > maxEnd {
		return fmt.Errorf("%w: restart %s at %d", ErrOffsetOutOfRange, l.path, start)
	}
	if err := l.durability.failed(); err != nil {
		return err
	}
	if err := w.cutCompaction(start); err != nil {
		return err
	}
	cfg, old := l.cfg.Load(), l.list()
	w.incarnation, w.journalTag = newIncarnation(), newIncarnation()
	st := w.blankState()
	st.Emptied, st.Start, st.RecoveryPoint = true, start, start
	st.Purged, st.PurgeID = purged.Below, purged.ID
	err := storeState(cfg.FS, l.path, st.With(nil, obsolete(old))) // no segment must be there: a crash from here on ends with an empty log
	if err != nil {                                                // which of the two states is on the disk is not known
		return l.breakWith(fmt.Errorf("restart %s at %d: %w", l.path, start, err))
	}
	w.marked, w.provisional, w.stateless = false, false, false // before the next append the state has to be written again
	l.purged.Store(&purged)
	w.moveEnd(start, start, start)
	l.aborts.begin()
	w.unfilled = gap{}
	l.durability.forgetAll()
	release := l.keepReadable(old)
	for _, s := range old {
		err = errors.Join(err, l.discard(s))
	}
	var fresh *segment.Segment
	if err == nil {
		err = errors.Join(cfg.FS.SyncDir(l.path), l.epochs.truncateFromEnd(0, noEpoch), l.dropSnapshots(func(int64) bool { return true }),
			lowerCleanerOffset(cfg.FS, l.path, 0))
	}
	if err == nil {
		fresh, err = w.createNext(cfg, start)
	}
	if err != nil {
		err = l.breakWith(fmt.Errorf("restart %s at %d: %w", l.path, start, err))
		release()
		return err
	}
	list := []*segment.Segment{fresh}
	w.gapless = true
	l.segments.current.Store(&list)
	release()
	l.durability.cutTo(start) // again, as in truncate
	l.segments.created.Store(now())
	w.latestEpoch()
	return w.writeState(list, false)
}

// cutEpochs removes the leader epochs that began at end or later; the log continues in the newest
// that is left. DeleteRecords can have moved the beginning of the oldest one up to end. If that
// leaves none, the epoch of the last batch stays, because recovery treats a later batch of an
// earlier epoch as damage.
func (w *writer) cutEpochs(end int64) error {
	l := w.log
	last := noEpoch
	if l.epochs.beginAt(end) {
		var err error
		if last, err = lastEpoch(l.list()); err != nil {
			return err
		}
		last.start = max(last.start, l.segments.start.Load())
	}
	err := l.epochs.truncateFromEnd(end, last)
	w.latestEpoch()
	return err
}

// lastEpoch returns the leader epoch of the last batch in a list of segments, and where that
// begins; noEpoch if there is none.
func lastEpoch(list []*segment.Segment) (last epochEntry, err error) {
	for _, s := range slices.Backward(list) {
		if s.Size() == 0 {
			continue
		}
		pos, err := s.Locate(s.NextOffset() - 1)
		if err != nil {
			return noEpoch, err
		}
		last = noEpoch
		err = s.Headers(pos, func(b *record.Batch, _ int64) bool {
			last = epochEntry{b.LeaderEpoch, b.BaseOffset}
			return true
		})
		return last, err
	}
	return noEpoch, nil
}

// latestEpoch takes the epoch to stamp from the cache again.
func (w *writer) latestEpoch() {
	l := w.log
	w.epoch, w.epochKnown = l.epochs.Latest()
	if !w.epochKnown {
		w.epoch = 0
	}
}
