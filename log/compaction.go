package log

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/compact"
	"github.com/stratalog/strata/log/internal/manifest"
)

// Producers may be implemented by an Owner that has the state of producers and transactions.
// Compaction then keeps the records and markers that this state still needs.
type Producers interface {
	// LastStableOffset returns the offset from which on transactions may be undecided.
	LastStableOffset() int64
	// ProducerLast returns the last append of a producer; ok is false if the producer has expired
	// or is unknown.
	ProducerLast(producerID int64) (last ProducerLast, ok bool)
}

// ProducerLast has the last append of a known producer: the Offset of its last record with data, or
// -1 if there is none, and the Epoch whose last marker is kept in that case.
type ProducerLast = compact.ProducerLast

// A CompactionReport reports the result of a compaction. Skipped is the reason why nothing was
// done, or empty. FirstDirty is the first offset that no earlier compaction has processed.
// FirstUncleanable is the first offset that must not be compacted. All offsets below End are
// compacted now. The other fields count segments, records and bytes before and after.
type CompactionReport = compact.Report

// errChanged is returned if segments changed while they were being compacted.
var errChanged = errors.New("log: segments were truncated or removed meanwhile")

// compactContext ends a compaction when its context does, or the log is closed or cut.
type compactContext struct {
	context.Context
	l    *Log
	cuts int64 // durability.cuts as it was when the compaction began
}

func (c compactContext) Err() error {
	switch {
	case c.l.closing.Load():
		return ErrClosed
	case c.l.durability.cuts.Load() != c.cuts:
		return errChanged
	}
	return c.Context.Err()
}

// compact does a pass of compaction if there is enough to do.
func (l *Log) compact(ctx context.Context) (rep CompactionReport, err error) {
	cfg := l.cfg.Load()
	watched := compactContext{ctx, l, l.durability.cuts.Load()}
	// The replacement of old records must be at least as durable as they were: a power failure must
	// not remove a key's last value after compaction has removed the one before it.
	if err := l.Sync(); err != nil {
		return rep, err
	}
	first, err := readCleanerOffset(cfg.FS, l.path)
	if err != nil {
		return rep, fmt.Errorf("compact %s: %w", l.path, err)
	}
	// A committed result has its final name by now. While the state on the disk has it under
	// another name, recovery would use an incomplete result of that name and size in its place.
	err = l.exclusively(func(w *writer) error {
		if !w.installing {
			return nil
		}
		return w.writeState(l.list(), false)
	})
	if err != nil {
		return rep, err
	}
	rep, err = l.newPass(cfg, watched, first, l.durability.offset.Load()).Run(watched)
	switch {
	case errors.Is(err, errChanged) || err != nil && watched.Err() == errChanged:
		rep.Skipped = errChanged.Error()
		return rep, nil
	case err != nil || rep.Skipped != "":
		return rep, err
	}
	cfg.Logger.Info("log compacted", "path", l.path, "from", rep.FirstDirty, "offset", rep.End, "segments", rep.SegmentsBefore, "segments_after", rep.SegmentsAfter,
		"bytes", rep.BytesBefore, "bytes_after", rep.BytesAfter)
	return rep, l.exclusively(func(w *writer) error {
		if watched.Err() == errChanged { // the goroutine that truncated the log has lowered the cleaner's offset
			return nil
		}
		return writeCleanerOffset(cfg.FS, l.path, rep.End)
	})
}

// newPass returns a pass of compaction over the segments that there are, of which the records below
// durable are on stable storage. It ends when watched does.
func (l *Log) newPass(cfg *Config, watched compactContext, firstDirty, durable int64) *compact.Pass {
	p := &compact.Pass{
		FS: cfg.FS, Dir: l.path, Segment: l.segmentConfig(cfg), Segments: l.list(), Now: now(),
		Limits: compact.Limits{
			SegmentBytes:    cfg.SegmentBytes,
			MinDirtyRatio:   cfg.MinDirtyRatio,
			MinLag:          cfg.MinCompactionLag.Milliseconds(),
			MaxLag:          max(cfg.MaxCompactionLag, 0).Milliseconds(),
			DeleteRetention: max(cfg.DeleteRetention, 0).Milliseconds(),
			MapBytes:        cfg.CompactionMemory,
		},
		Start: l.segments.start.Load(), FirstDirty: firstDirty, Stable: min(l.highWatermark(), durable),
		PurgeBelow: cfg.purgeBelow(),
		Newest:     func(s *segment.Segment) (int64, error) { return largestTimestamp(cfg.FS, s) },
		Replace:    func(r *compact.Result) error { return l.replaceCompacted(watched, r) },
	}
	if o, ok := cfg.Owner.(Producers); ok {
		p.Stable = min(p.Stable, o.LastStableOffset())
		p.LastOf = o.ProducerLast
	}
	// Later than the owner's bound: a transaction that was undecided then, and is decided now, is
	// in aborts.
	p.Stable = min(p.Stable, l.aborts.stable())
	return p
}

// replaceCompacted replaces the sources of a compacted segment with the segment. One durable state
// records it: a crash before that leaves the sources, and a crash after it the result.
func (l *Log) replaceCompacted(watched compactContext, r *compact.Result) error {
	return l.exclusively(func(w *writer) error {
		if err := errors.Join(watched.Err(), l.durability.failed()); err != nil {
			return err
		}
		list := l.list()
		i := slices.Index(list, r.Sources[0])
		// Retention may have removed some of them meanwhile.
		if i < 0 || i+len(r.Sources) >= len(list) || !slices.Equal(list[i:i+len(r.Sources)], r.Sources) {
			return errChanged
		}
		purged := l.Purged().and(r.Purged)
		err := r.Commit(func() error {
			s := w.stateOf(l.cfg.Load(), list, false)
			s.Purged, s.PurgeID = purged.Below, purged.ID
			result := manifest.Segment{Base: r.Base, Size: r.Size, Role: manifest.Installing}
			s.Segments = slices.Replace(s.Segments, i, i+len(r.Sources), result)
			return w.storeState(s.With(s.Segments, obsolete(r.Sources)))
		})
		defer l.keepReadable(r.Sources)()
		var fresh *segment.Segment
		if err == nil {
			fresh, err = r.Install(l.removeFile)
		}
		if err != nil { // the state names the result, and only the next open can complete that
			return l.breakWith(fmt.Errorf("replace segments from %d on of %s by a compacted one: %w", r.Base, l.path, err))
		}
		l.purged.Store(&purged) // first: a reader that has read from the result, and checks then, finds it
		w.replaceSegments(r.Sources, fresh)
		w.noteAborted(fresh, list[i+len(r.Sources)].Base())
		// No reader may find records in the tail that compaction has removed.
		l.tail.leave(list[i+len(r.Sources)].Base())
		for _, gone := range r.Sources {
			l.durability.forget(gone)
		}
		return nil
	})
}

// cutCompaction notifies compaction, in progress or later, that the log is truncated at offset:
// later records there are new.
func (w *writer) cutCompaction(offset int64) error {
	l := w.log
	l.durability.cuts.Add(1)
	l.tail.reset()
	return lowerCleanerOffset(l.cfg.Load().FS, l.path, offset)
}
