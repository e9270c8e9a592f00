package consumer

import (
	"context"
	"iter"

	"github.com/stratalog/strata/record"
)

// firstKeyWindow is the number of offsets before the end of a partition that are read first for a
// key.
const firstKeyWindow = 4096

// last yields the last records of each partition, and moves every partition to its end. It returns
// false if the caller stops.
func (r *reader) last(ctx context.Context, yield func(record.Record, error) bool) (more bool, err error) {
	parts := make([][]record.Record, len(r.parts))
	for i, p := range r.parts {
		if parts[i], err = r.lastOf(ctx, p); err != nil {
			return true, err
		}
		p.next = max(p.next, p.end)
	}
	for rec := range merged(parts, r.cfg.ByTime) {
		if err := ctx.Err(); err != nil {
			return true, err
		}
		if !yield(rec, nil) {
			return false, nil
		}
	}
	return true, nil
}

// merged yields the records of partitions one partition after the other, or by time: each time the
// oldest of the partitions' next records.
func merged(parts [][]record.Record, byTime bool) iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		for {
			next := -1
			for i, rs := range parts {
				if len(rs) > 0 && (next < 0 || byTime && rs[0].Timestamp.Before(parts[next][0].Timestamp)) {
					next = i
				}
			}
			if next < 0 || !yield(parts[next][0]) {
				return
			}
			parts[next] = parts[next][1:]
		}
	}
}

// lastOf returns the last records of a partition. It reads a window before the end, and further
// ones before that, each four times as large, while records are missing: no offset is read twice.
func (r *reader) lastOf(ctx context.Context, p *readPart) (found []record.Record, err error) {
	window := int64(r.cfg.Last)
	if r.cfg.Key != nil {
		window = max(window, firstKeyWindow)
	}
	for end := p.end; len(found) < r.cfg.Last && end > p.next; window *= 4 {
		from := p.next
		if window < end-p.next { // also keeps window from overflowing
			from = end - window
		}
		earlier, err := r.lastBetween(ctx, p, from, end, r.cfg.Last-len(found))
		if err != nil {
			return nil, err
		}
		found, end = append(earlier, found...), from
	}
	return found, nil
}

// lastBetween returns the last records, n at most, with offsets in [from, end).
func (r *reader) lastBetween(ctx context.Context, p *readPart, from, end int64, n int) (found []record.Record, err error) {
	part := newReadPart(p.tp, from, end)
	window := &reader{b: r.b, cfg: r.cfg, id: r.id, version: r.version, known: r.known, parts: []*readPart{part}}
	window.cfg.ByTime = false
	keep := func(rec record.Record, _ error) bool {
		if len(found) == 2*n { // excess records are dropped now and then, not at each record
			found = append(found[:0], found[n:]...)
		}
		found = append(found, rec.Clone())
		return true
	}
	for len(window.parts) > 0 {
		if err := window.fetch(ctx, window.missing); err != nil {
			return nil, err
		}
		if window.hand(ctx, keep, &err); err != nil {
			return nil, err
		}
	}
	return found[max(0, len(found)-n):], nil
}
