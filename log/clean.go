package log

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Producers may be implemented by an Owner that knows producers and transactions: compaction then
// leaves alone what they still need.
type Producers interface {
	// LastStableOffset returns the offset from which on transactions are undecided.
	LastStableOffset() int64
	// ProducerLast returns what is known of the last append of a producer; ok is false if the
	// producer is forgotten.
	ProducerLast(producerID int64) (last ProducerLast, ok bool)
}

// A CleanReport says what Clean did and why.
type CleanReport struct {
	Segments    []SegmentVerdict  // every segment that was there, oldest first: what retention decided
	StartOffset int64             // of the log, afterwards
	Compaction  *CompactionReport // nil: the log is not compacted
}

// ProducerLast is the last trace of a producer that is still known: see Producers.
type ProducerLast struct {
	Offset int64 // of the last record with data, -1 if none is known any more
	Epoch  int16 // whose last marker stays then
}

// A CompactionReport says what a compaction did, or why it did nothing.
type CompactionReport struct {
	Skipped          string // why nothing was done; empty: it was
	FirstDirty       int64  // first offset that no earlier compaction had seen
	FirstUncleanable int64  // first offset that must stay as it is
	End              int64  // offsets below are compacted now
	DirtyRatio       float64
	MapFull          bool // the map took no more keys: the rest is for the next pass

	SegmentsBefore, SegmentsAfter int
	RecordsBefore, RecordsAfter   int64
	BytesBefore, BytesAfter       int64
}

// errChanged says that segments changed while they were being compacted.
var errChanged = errors.New("log: segments were truncated or removed meanwhile")

// Clean applies the retention settings now, then compacts if Cleanup says so, and tells what went,
// what stayed, and why.
//
// Retention removes whole segments from the front: those below the start offset, those without
// which the log still has RetentionBytes, and those whose newest record is older than RetentionAge.
// An active segment that is too old is rolled first, so that a log can become empty. Nothing at or
// above the high watermark goes. Compaction rewrites closed segments; see MinDirtyRatio and the
// lags for when. The active segment of a compacted log is rolled first if it is SegmentAge old, or
// MaxCompactionLag if that is less.
//
// Appends and reads go on. One Clean runs at a time; another waits. Cancelling ctx, or Close, ends
// a compaction at the next batch; what was swapped in until then stays. Removed files disappear
// when their last reader has gone. Kafka: log.retention.check.interval.ms and the log cleaner,
// which call this in the background.
func (l *Log) Clean(ctx context.Context) (rep CleanReport, err error) {
	if l.readOnly {
		return rep, ErrReadOnly
	}
	l.cleaning.lock()
	defer l.cleaning.unlock()
	if rep, err = l.applyRetention(ctx); err != nil {
		return rep, err
	}
	if l.cfg.Load().Cleanup.Compacts() {
		c, err := l.compact(ctx)
		rep.Compaction = &c
		return rep, err
	}
	return rep, nil
}

// Retain is Clean without compaction.
func (l *Log) Retain(ctx context.Context) (CleanReport, error) {
	if l.readOnly {
		return CleanReport{}, ErrReadOnly
	}
	l.cleaning.lock()
	defer l.cleaning.unlock()
	return l.applyRetention(ctx)
}

// applyRetention rolls an overdue active segment and removes what retention does not keep. The
// caller has cleaning.
func (l *Log) applyRetention(ctx context.Context) (rep CleanReport, err error) {
	if err := ctx.Err(); err != nil {
		return rep, err
	}
	err = l.exclusively(func(w *writer) error {
		if err := w.rollOverdue(); err != nil {
			return err
		}
		rep.Segments, err = w.retain()
		return err
	})
	rep.StartOffset = l.StartOffset()
	if err != nil {
		return rep, fmt.Errorf("clean %s: %w", l.path, err)
	}
	return rep, nil
}

// rollOverdue closes the active segment of a compacted log when its first record has waited for
// segmentAge, so that it can be compacted. Kafka does so only with the next append: the last
// records of a topic that nobody writes to any more are never compacted there. A segment is never
// closed sooner than segmentAge after it was made, or records with old timestamps would get a
// segment each time.
func (w *writer) rollOverdue() error {
	l := w.log
	cfg, active := l.cfg.Load(), l.active()
	if err := l.durability.failed(); err != nil || !cfg.Cleanup.Compacts() || active.Size() == 0 {
		return err
	}
	first, ok, err := active.FirstTimestamp()
	if err != nil || !ok {
		return err
	}
	if waited := now() - max(first, w.created); waited <= cfg.segmentAge().Milliseconds()-w.jitter {
		return nil
	}
	return w.roll(l.segments.end.Load())
}

// retain removes the segments that the settings do not keep.
func (w *writer) retain() ([]SegmentVerdict, error) {
	l := w.log
	if err := l.durability.failed(); err != nil {
		return nil, err
	}
	cfg, list := l.cfg.Load(), l.list()
	r := retention{now: now(), start: l.segments.start.Load(), highWatermark: l.highWatermark(), maxBytes: -1, maxAge: -1}
	if cfg.Cleanup.Deletes() {
		if cfg.RetentionBytes > 0 {
			r.maxBytes = cfg.RetentionBytes
		}
		if cfg.RetentionAge >= 0 {
			r.maxAge = cfg.RetentionAge.Milliseconds()
		}
	}
	facts := make([]segmentFacts, len(list))
	for i, s := range list {
		newest, err := largestTimestamp(cfg.FS, s)
		if err != nil {
			cfg.Logger.Warn("newest timestamp of a segment is not known: it is not removed by age", "path", l.path, "offset", s.Base(), "err", err)
		}
		facts[i] = segmentFacts{base: s.Base(), next: l.segments.end.Load(), size: s.Size(), largestTimestamp: newest, unknown: err}
		if i+1 < len(list) {
			facts[i].next = list[i+1].Base()
		}
	}
	verdicts, n := r.decide(facts)
	if n == 0 {
		return verdicts, nil
	}
	if n == len(list) {
		if err := w.roll(l.segments.end.Load()); err != nil {
			return nil, err
		}
	}
	for _, v := range verdicts[:n] {
		cfg.Logger.Info("segment removed", "path", l.path, "offset", v.BaseOffset, "next", v.NextOffset, "bytes", v.Size, "reason", v.Reason)
	}
	return verdicts, w.removeFront(n)
}

// highWatermark returns the offset from which on nothing may be removed.
func (l *Log) highWatermark() int64 {
	if hw := l.segments.highWatermark.Load(); hw >= 0 {
		return hw
	}
	return math.MaxInt64
}

// compactContext ends a compaction when the log is closed or cut.
type compactContext struct {
	context.Context
	l    *Log
	cuts int64
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
	// What takes the place of old records must be at least as durable as they were: a power cut
	// must not take a key's last value after compaction has removed the one before it.
	if err := l.Sync(); err != nil {
		return rep, err
	}
	first, err := readCleanerOffset(cfg.FS, l.path)
	if err != nil {
		return rep, fmt.Errorf("compact %s: %w", l.path, err)
	}
	done, err := l.newPass(cfg, watched, first).Run(watched)
	rep = CompactionReport(done)
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
		if watched.Err() == errChanged { // the mark was lowered by whoever cut the log
			return nil
		}
		return writeCleanerOffset(cfg.FS, l.path, rep.End)
	})
}

// cutCompaction tells compaction, under way or later, that the log is cut at offset: what comes
// there afterwards is new.
func (w *writer) cutCompaction(offset int64) error {
	l := w.log
	l.durability.cuts.Add(1)
	l.tail.reset()
	return lowerCleanerOffset(l.cfg.Load().FS, l.path, offset)
}

// now is the present time in ms.
func now() int64 { return time.Now().UnixMilli() }
