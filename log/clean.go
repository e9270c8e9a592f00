package log

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stratalog/strata/internal/segment"
)

// A CleanReport reports the result of Clean, with reasons.
type CleanReport struct {
	// Segments has every segment that there was, oldest first, and the decision of retention on it.
	Segments    []SegmentVerdict
	StartOffset int64             // the log start offset after Clean
	Compaction  *CompactionReport // nil if the log is not compacted
}

// Clean applies the retention settings now, then compacts if Cleanup includes compaction. It
// reports the removed and kept parts of the log, with reasons.
//
// Retention removes whole segments from the front of the log: segments below the start offset,
// segments without which the log still has RetentionBytes, and segments whose newest record is
// older than RetentionAge. An active segment that is too old is rolled first, so that a log can
// become empty. No segment at or above the high watermark is removed.
//
// Compaction rewrites closed segments, when MinDirtyRatio and the lags permit it. The active
// segment of a compacted log is rolled first if it is older than SegmentAge, or than
// MaxCompactionLag if that is less.
//
// Appends and reads continue. One Clean runs at a time; another one waits. If ctx ends or the log
// is closed, compaction ends at the next batch; segments that are replaced by then stay replaced. A
// removed file is deleted when its last reader has finished. Kafka: log.retention.check.interval.ms
// and the log cleaner, which run this in the background.
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

// applyRetention rolls an overdue active segment and removes the segments that retention does not
// keep. The caller has cleaning.
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

// rollOverdue closes the active segment of a compacted log when its first record is older than
// segmentAge, so that it can be compacted. Kafka does so only with the next append: the last
// records of an idle topic are never compacted there. A segment is closed at the earliest
// segmentAge after its creation. Otherwise each record with an old timestamp would get a segment of
// its own.
func (w *writer) rollOverdue() error {
	l := w.log
	if err := l.durability.failed(); err != nil {
		return err
	}
	if overdue, err := l.overdue(l.cfg.Load(), l.active()); err != nil || !overdue {
		return err
	}
	return w.roll(l.segments.end.Load())
}

// overdue reports whether rollOverdue closes the active segment.
func (l *Log) overdue(cfg *Config, active *segment.Segment) (bool, error) {
	if !cfg.Cleanup.Compacts() || active.Size() == 0 {
		return false, nil
	}
	first, ok, err := active.FirstTimestamp()
	if err != nil || !ok {
		return false, err
	}
	waited := now() - max(first, l.segments.created.Load())
	return waited > cfg.segmentAge().Milliseconds()-l.segments.jitter.Load(), nil
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
	facts := l.retentionFacts(cfg, list)
	for _, f := range facts {
		if f.unknown != nil {
			cfg.Logger.Warn("newest timestamp of a segment is not known: it is not removed by age", "path", l.path, "offset", f.base, "err", f.unknown)
		}
	}
	verdicts, n := l.retention(cfg).decide(facts)
	if n == 0 {
		return verdicts, nil
	}
	if n == len(list) {
		err := w.roll(l.segments.end.Load())
		if err != nil && n > 1 { // a full disk: those before the active one go without a new one
			n--
			verdicts[n].Removed, verdicts[n].Reason = false, fmt.Sprintf("the active segment cannot be closed: %v", err)
		} else if err != nil {
			return nil, err
		}
	}
	for _, v := range verdicts[:n] {
		cfg.Logger.Info("segment removed", "path", l.path, "offset", v.BaseOffset, "next", v.NextOffset, "bytes", v.Size, "reason", v.Reason)
	}
	return verdicts, w.removeFront(n)
}

// retention returns the limits of retention now.
func (l *Log) retention(cfg *Config) retention {
	r := retention{now: now(), start: l.segments.start.Load(), highWatermark: l.highWatermark(), maxBytes: -1, maxAge: -1}
	if cfg.Cleanup.Deletes() {
		if cfg.RetentionBytes > 0 {
			r.maxBytes = cfg.RetentionBytes
		}
		if cfg.RetentionAge >= 0 {
			r.maxAge = cfg.RetentionAge.Milliseconds()
		}
	}
	return r
}

// retentionFacts returns the properties of segments, the active one last, that retention depends
// on.
func (l *Log) retentionFacts(cfg *Config, list []*segment.Segment) []segmentFacts {
	facts := make([]segmentFacts, len(list))
	for i, s := range list {
		newest, err := largestTimestamp(cfg.FS, s)
		facts[i] = segmentFacts{base: s.Base(), next: l.segments.end.Load(), size: s.Size(), largestTimestamp: newest, unknown: err}
		if i+1 < len(list) {
			facts[i].next = list[i+1].Base()
		}
	}
	return facts
}

// highWatermark returns the offset from which on nothing may be removed.
func (l *Log) highWatermark() int64 {
	if hw := l.segments.highWatermark.Load(); hw >= 0 {
		return hw
	}
	return math.MaxInt64
}
