package log

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// DeleteRecords moves the start of the log to before: records below it cannot be read any more. It is on stable storage when it returns.
// Whole segments below are removed by Clean. It returns ErrOffsetOutOfRange if before is above the end; below the start it does nothing.
func (l *Log) DeleteRecords(before int64) error {
	return l.exclusively(func() error {
		if err := l.refusal(); err != nil {
			return err
		}
		start, end := l.start.Load(), l.end.Load()
		if before > end {
			return fmt.Errorf("%w: delete records before %d, the log ends at %d", ErrOffsetOutOfRange, before, end)
		}
		if before <= start {
			return nil
		}
		if err := l.moveStart(before, l.list()); err != nil {
			return fmt.Errorf("delete records of %s: %w", l.path, err)
		}
		return nil
	})
}

// moveStart makes the log begin at offset with the given segments, durably. With the turn.
func (l *Log) moveStart(offset int64, list []*segment.Segment) error {
	old := l.start.Swap(offset)
	if err := l.writeState(list, false); err != nil {
		l.start.Store(old)
		return err
	}
	return l.epochs.truncateFromStart(offset)
}

// removeFront removes the first n segments; the log begins at the next one, or later. With the turn. The active segment is never among them.
func (l *Log) removeFront(n int) error {
	list := l.list()
	gone, kept := list[:n], slices.Clone(list[n:])
	if err := l.moveStart(max(l.start.Load(), kept[0].Base()), kept); err != nil {
		return err
	}
	l.segments.Store(&kept)
	var errs []error
	for _, s := range gone {
		l.forget(s)
		errs = append(errs, l.discard(s))
	}
	base := kept[0].Base()
	errs = append(errs, l.dropSnapshots(func(offset int64) bool { return offset < base }))
	return errors.Join(append(errs, l.cfg.Load().FS.SyncDir(l.path))...)
}

// forget takes a removed segment off the list of those to be synced.
func (l *Log) forget(s *segment.Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty = slices.DeleteFunc(slices.Clone(l.dirty), func(d *segment.Segment) bool { return d == s }) // a sync may be looking at the old one
}

// TruncateTo removes the batches that reach to offset or beyond it; appends go on at offset, or at the base of the batch that offset is inside of
// (Kafka's UnifiedLog.truncateTo leaves a gap then). It is on stable storage when it returns. Appends under way end first. At or above the end it does
// nothing; below the first segment it empties the log.
func (l *Log) TruncateTo(offset int64) error {
	return l.exclusively(func() error {
		switch {
		case offset >= l.end.Load():
			return l.epochs.truncateFromEnd(offset)
		case offset < l.list()[0].Base():
			return l.restartAt(offset)
		}
		if err := l.truncate(offset); err != nil {
			return fmt.Errorf("truncate %s to %d: %w", l.path, offset, err)
		}
		return nil
	})
}

func (l *Log) truncate(offset int64) error {
	if err := l.refusal(); err != nil {
		return err
	}
	if err := l.markOpen(); err != nil {
		return err
	}
	if err := l.syncNow(); err != nil { // closed segments too: afterwards only the last one is known to be synced
		return err
	}
	if err := l.cutCompaction(offset); err != nil {
		return err
	}
	list := l.list()
	i := floor(list, offset)
	kept, gone := slices.Clone(list[:i+1]), list[i+1:]
	last := kept[i]
	end, err := endOfCut(last, offset)
	if err != nil {
		return err
	}
	if start := l.start.Load(); end < start && start <= offset { // of the batch that goes, records below the start were deleted: they stay so
		return l.restartAt(start)
	}
	oldStart, oldEnd, oldDurable := l.start.Load(), l.end.Load(), l.durable.Load()
	l.moveEnd(min(oldStart, end), end, min(oldDurable, end))
	if err := l.writeState(kept, false); err != nil {
		l.moveEnd(oldStart, oldEnd, oldDurable) // nothing has been cut; if that state is on the disk all the same, it asks for less than there is
		return err
	}
	l.segments.Store(&kept)
	l.forget(last) // it takes appends again
	var errs []error
	for _, s := range slices.Backward(gone) {
		l.forget(s)
		errs = append(errs, l.discard(s))
	}
	l.mu.Lock()
	l.cuts.Add(1) // again: a sync that began since the first time may have seen segments that were still to go
	l.durable.Store(min(l.durable.Load(), end))
	l.mu.Unlock()
	errs = append(errs, l.cfg.Load().FS.SyncDir(l.path), last.Truncate(offset), last.Sync())
	if err := errors.Join(errs...); err != nil {
		return l.breakWith(err)
	}
	if err := errors.Join(l.epochs.truncateFromEnd(end),
		l.dropSnapshots(func(o int64) bool { return o > end }), lowerCleanerOffset(l.cfg.Load().FS, l.path, end)); err != nil {
		return l.breakWith(err)
	}
	l.latestEpoch()
	if end > last.NextOffset() && end > last.Base() {
		return l.roll(end) // compaction has taken the records before end: the name of a segment keeps their offsets from being given again
	}
	return nil
}

// moveEnd sets the offsets of a log that is cut. With the turn.
func (l *Log) moveEnd(start, end, durable int64) {
	l.mu.Lock()
	l.durable.Store(durable)
	l.mu.Unlock()
	l.start.Store(start)
	l.end.Store(end)
}

// endOfCut returns where appends go on after a cut at offset: there, unless that is inside of a batch of s, which goes entirely.
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

// TruncateFully removes everything; appends go on at start. A follower does so whose log ends before its leader's begins.
func (l *Log) TruncateFully(start int64) error {
	return l.exclusively(func() error { return l.restartAt(start) })
}

func (l *Log) restartAt(start int64) error {
	if err := l.refusal(); err != nil {
		return err
	}
	if err := l.cutCompaction(start); err != nil {
		return err
	}
	cfg, old := l.cfg.Load(), l.list()
	l.incarnation = newIncarnation()
	st := l.blankState()
	st.Emptied, st.Start, st.RecoveryPoint = true, start, start
	err := storeState(cfg.FS, l.path, st) // no segment must be there: a crash from here on ends with an empty log
	if err != nil {                       // which of the two states is on the disk is not known
		return l.breakWith(fmt.Errorf("restart %s at %d: %w", l.path, start, err))
	}
	l.marked = false // before anything is appended the state has to say otherwise again
	l.moveEnd(start, start, start)
	l.mu.Lock()
	l.dirty = nil
	l.mu.Unlock()
	for _, s := range old {
		err = errors.Join(err, l.discard(s))
	}
	var fresh *segment.Segment
	if err == nil {
		err = errors.Join(cfg.FS.SyncDir(l.path), l.epochs.truncateFromEnd(0), l.dropSnapshots(func(int64) bool { return true }),
			lowerCleanerOffset(cfg.FS, l.path, 0))
	}
	if err == nil {
		fresh, err = segment.Create(l.path, start, l.segmentConfig(cfg))
	}
	if err == nil {
		err = cfg.FS.SyncDir(l.path)
	}
	if err != nil {
		return l.breakWith(fmt.Errorf("restart %s at %d: %w", l.path, start, err))
	}
	list := []*segment.Segment{fresh}
	l.segments.Store(&list)
	l.mu.Lock()
	l.cuts.Add(1) // again, as in truncate
	l.durable.Store(start)
	l.mu.Unlock()
	l.created = now()
	l.latestEpoch()
	return l.writeState(list, false)
}

// latestEpoch takes the epoch to stamp from the cache again.
func (l *Log) latestEpoch() {
	l.epoch, l.epochKnown = l.epochs.Latest()
	if !l.epochKnown {
		l.epoch = 0
	}
}

func (l *Log) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}
