package log

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/log/internal/compact"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/segment"
)

// newPass returns a pass of compaction over the segments that there are. It ends when watched does.
func (l *Log) newPass(cfg *Config, watched compactContext, firstDirty int64) *compact.Pass {
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
		Start: l.segments.start.Load(), FirstDirty: firstDirty, Stable: min(l.highWatermark(), l.durability.offset.Load()),
		Newest:  func(s *segment.Segment) (int64, error) { return largestTimestamp(cfg.FS, s) },
		Replace: func(r *compact.Result) error { return l.replaceCompacted(watched, r) },
	}
	if o, ok := cfg.Owner.(Producers); ok {
		p.Stable = min(p.Stable, o.LastStableOffset())
		p.LastOf = func(id int64) (compact.ProducerLast, bool) {
			last, ok := o.ProducerLast(id)
			return compact.ProducerLast(last), ok
		}
	}
	return p
}

// replaceCompacted makes a compacted segment take the place of its sources. One state says so,
// durably: a crash before it leaves the sources, and one after it the result.
func (l *Log) replaceCompacted(watched compactContext, r *compact.Result) error {
	return l.exclusively(func(w *writer) error {
		if err := errors.Join(watched.Err(), l.durability.failed()); err != nil {
			return err
		}
		list := l.list()
		i := slices.Index(list, r.Sources[0])
		if i < 0 || i+len(r.Sources) >= len(list) || !slices.Equal(list[i:i+len(r.Sources)], r.Sources) { // removed by retention
			return errChanged
		}
		err := r.Commit(func() error {
			s := w.stateOf(l.cfg.Load(), list, false)
			result := manifest.Segment{Base: r.Base, Size: r.Size, Role: manifest.Installing}
			s.Segments = slices.Replace(s.Segments, i, i+len(r.Sources), result)
			return w.storeState(s.With(s.Segments, obsolete(r.Sources)))
		})
		var fresh *segment.Segment
		if err == nil {
			fresh, err = r.Install(l.removeFile)
		}
		if err != nil { // the state asks for the result, and only the next open can do that
			return l.breakWith(fmt.Errorf("replace segments from %d on of %s by a compacted one: %w", r.Base, l.path, err))
		}
		w.replaceSegments(r.Sources, fresh)
		l.tail.leave(list[i+len(r.Sources)].Base()) // nobody is to find there what compaction has taken
		for _, gone := range r.Sources {
			l.durability.forget(gone)
		}
		return nil
	})
}
