package log

import (
	"context"
	"fmt"
	"math"
	"time"
)

// A CleanReport says what Clean did and why.
type CleanReport struct {
	// Segments has every segment that was there, oldest first, and what retention decided.
	Segments    []SegmentVerdict
	StartOffset int64             // of the log, afterwards
	Compaction  *CompactionReport // nil: the log is not compacted
}

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
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
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
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
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

// now is the present time in ms.
func now() int64 { return time.Now().UnixMilli() }

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
