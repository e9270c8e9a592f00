package consumer

import (
	"context"

	"github.com/stratalog/strata/record"
)

// dispatch feeds the workers until Run ends.
func (r *runner) dispatch(ctx context.Context) error {
	for {
		p, err := r.c.next(ctx)
		if err != nil {
			if isOfPartition(err) && !r.c.isFatal(err) && r.err() == nil {
				r.c.cfg.Logger.Error("partition cannot be read, going on without it", "err", err)
				continue
			}
			return err
		}
		if err := r.feed(p); err != nil {
			r.c.cfg.Logger.Error("partition cannot be read, going on without it", "err", err)
		}
	}
}

// feed hands out the fetched records of p, up to MaxInFlight.
func (r *runner) feed(p *part) error {
	t, room := r.trackOf(p)
	if t == nil {
		p.chunk = chunk{}
		return nil
	}
	p.chunk.keepBytes()
	rs := r.buf[:0]
	var failed error
	for more := true; more && len(rs) < room; {
		var rec record.Record
		if more, failed = p.chunk.record(p.tp, &rec); more {
			rs = append(rs, rec)
		}
	}
	if len(rs) > 0 {
		t.d.pass(rs[0].Offset)
		t.d.position.Store(rs[len(rs)-1].Offset + 1)
		r.c.records.Add(int64(len(rs)))
		r.push(t, rs)
	}
	clear(rs)
	r.buf = rs[:0]
	switch {
	case failed != nil:
		return r.c.damaged(p, failed)
	case !p.chunk.left():
		r.chunkDone(t)
	}
	return nil
}

// trackOf returns the track of p and the number of records it may take. After a seek it is a new
// one, since earlier records in flight do not belong to the new position. nil: drop the fetched
// records, since p was sought or lost after it was found to have some. Both locks are held, so that
// a later seek, loss or pause finds the track.
func (r *runner) trackOf(p *part) (*track, int) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if p.chunk.d != p.d || !r.c.ownsLocked(p) {
		return nil, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[p]
	if t == nil || t.d != p.d {
		if t != nil {
			r.ignoreLocked(t)
		}
		ctx, cancel := context.WithCancelCause(r.values)
		t = &track{p: p, d: p.d, ctx: ctx, cancel: cancel, idle: make(chan struct{}), paused: p.paused}
		r.tracks[p], r.live[t] = t, true
	}
	room := max(0, r.cfg.MaxInFlight-t.inFlight())
	t.throttled = room == 0
	return t, room
}

// push queues records with their lanes.
func (r *runner) push(t *track, rs []record.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range rs {
		j := job{t: t, seq: t.add(rs[i].Offset), rec: rs[i]}
		r.cfg.RetryTopics.receive(&j)
		r.lanes.push(j)
	}
	t.throttled = t.inFlight() >= r.cfg.MaxInFlight
}

// chunkDone is part.chunkDone for Run: invisible records are done when the records before them are.
func (r *runner) chunkDone(t *track) {
	next, pos := t.p.chunk.next, t.d.position.Load()
	t.p.chunk = chunk{}
	if next <= pos {
		return
	}
	idle := t.d.inHandNone(pos)
	t.d.pass(next)
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.inFlight() > 0 {
		r.doneLocked(t, t.add(next-1))
	} else if idle || t.d.processed.Load() == pos {
		t.d.done(next)
	}
}

// full reports whether p must not be handed out or fetched at present. Called under Consumer.mu.
func (r *runner) full(p *part) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[p]
	return t != nil && t.d == p.d && t.throttled
}
