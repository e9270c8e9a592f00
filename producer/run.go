package producer

import (
	"context"

	"github.com/stratalog/strata/record"
)

// maxRunRecords bounds the records that one turn of a partition's lock takes.
const maxRunRecords = 64

// SendAllAsync is SendAsync for each of rs, in their order, at two thirds of the cost: what has
// to be looked up, claimed and locked is so once for neighbours that go to the same batch. done,
// which may be nil, is called for each record. rs and its bytes are borrowed until SendAllAsync
// returns.
//
// It may wait in the middle, as SendAsync does; what comes before that record is on its way then.
func (p *Producer) SendAllAsync(ctx context.Context, rs []record.Record, done func(record.Record, error)) {
	if p.txn != nil {
		for _, r := range rs {
			p.refused(r, done, ErrNoTransaction)
		}
		return
	}
	s := runSender{p: p, to: recipient{done: done}}
	for len(rs) > 0 {
		rs = rs[s.send(ctx, rs):]
	}
}

// A runSender sends the records of one SendAllAsync, run by run. A run is neighbours that fit into
// the open batch of one partition.
type runSender struct {
	p   *Producer
	to  recipient
	now int64 // stamp of the records of the run that have none

	// next is where the first record of the next run goes, or why it goes nowhere, if placed: no
	// partitioner is asked twice for a record.
	next   placement
	err    error
	placed bool

	refusal error // of the first record that was not accepted
}

// refused tells that a record was not accepted.
func (s *runSender) refused(r *record.Record, err error) {
	if s.refusal == nil {
		s.refusal = err
	}
	s.p.refused(*r, s.to.done, err)
}

// send sends the first run of rs and returns how many records it has, at least one.
func (s *runSender) send(ctx context.Context, rs []record.Record) int {
	if !s.placed {
		s.err = s.p.prepare(ctx, &rs[0], nil, &s.next)
	}
	s.placed, s.now = false, s.p.stamp()
	if s.err != nil {
		s.refused(&rs[0], s.err)
		return 1
	}
	first := s.next
	n, bytes := s.extend(ctx, rs, &first)
	taken := 0
	if n > 1 && s.p.memory.tryAcquire(bytes) {
		taken = s.putRun(rs[:n], bytes, &first)
	}
	for i := taken; i < n; i++ { // memory is short, or the batch was not what it seemed to be
		s.put(ctx, &rs[i], first)
	}
	return n
}

// extend returns how many records make a run that begins with a record for the given place, and
// their size. If the one behind it was placed elsewhere, that is noted.
func (s *runSender) extend(ctx context.Context, rs []record.Record, first *placement) (n int, bytes int64) {
	p, n, bytes := s.p, 1, first.size
	room := first.part.room()
	for n < min(len(rs), maxRunRecords) {
		r := &rs[n]
		size := recordSize(r)
		explicit, ok := r.ExplicitPartition()
		if bytes+size >= room || r.Topic != first.topic.name || ok && int(explicit) >= len(first.view.parts) {
			return n, bytes
		}
		at := placement{topic: first.topic, view: first.view, tsMs: stampOf(r, s.now), size: size}
		err := p.checkRecord(r, at.tsMs, size)
		if err == nil {
			at.part, at.chosen, err = p.place(ctx, at.topic, at.view.parts, r, nil)
		}
		if err != nil || at.part != first.part || at.chosen != first.chosen {
			s.next, s.err, s.placed = at, err, true
			return n, bytes
		}
		n, bytes = n+1, bytes+size
	}
	return n, bytes
}

// putRun appends records for which that many bytes are claimed, and returns how many it did.
func (s *runSender) putRun(rs []record.Record, bytes int64, at *placement) int {
	e := entry{recipient: s.to, layout: at.view.layout, chosen: at.chosen && s.p.cfg.aware != nil}
	n, took, grown := at.part.appendRun(rs, &e, s.now)
	if took < bytes {
		s.p.memory.release(bytes - took)
	}
	s.p.tell(at, grown)
	return n
}

// put sends one record by itself.
func (s *runSender) put(ctx context.Context, r *record.Record, at placement) {
	at.size, at.tsMs = recordSize(r), stampOf(r, s.now)
	pt, err := s.p.put(ctx, r, s.to, &at)
	if err != nil {
		s.refused(r, err)
		return
	}
	if pt != nil {
		s.p.sender.hand(pt)
	}
}

// stampOf returns the timestamp of r, or now if it has none.
func stampOf(r *record.Record, now int64) int64 {
	if r.Timestamp.IsZero() {
		return now
	}
	return r.Timestamp.UnixMilli()
}

// room returns how many bytes the open batch still takes.
func (pt *partitionQueue) room() int64 {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	if b := pt.tail; b != nil && b.state == open {
		return int64(pt.p.cfg.BatchBytes - b.builder.Size())
	}
	return 0
}

// appendRun puts records into the open batch as long as that will not be full, and returns how many
// it did and their size. Unlike append it neither begins nor completes a batch, so there is nothing
// to drain.
func (pt *partitionQueue) appendRun(rs []record.Record, e *entry, now int64) (n int, bytes int64, g growth) {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	b := pt.tail
	if b == nil || b.state != open || pt.p.closing.Load() || pt.gone || pt.layout != e.layout {
		return 0, 0, g
	}
	before := b.builder.Size()
	for i := range rs {
		r := &rs[i]
		e.size, e.tsMs = recordSize(r), stampOf(r, now)
		if int64(b.builder.Size())+e.size >= int64(pt.p.cfg.BatchBytes) || !b.add(r, e) {
			break
		}
		n, bytes = n+1, bytes+e.size
	}
	g.bytes = b.builder.Size() - before
	pt.noteGrowthLocked(&g, e.chosen, false)
	return n, bytes, g
}

// noteGrowthLocked decides whether a partitioner is told of g, of records that it has chosen the
// partition of. turned says that a batch was begun or completed.
func (pt *partitionQueue) noteGrowthLocked(g *growth, chosen, turned bool) {
	if !chosen {
		return
	}
	if g.bytes += pt.unreportedBytes; turned || g.bytes >= pt.p.cfg.BatchBytes/notifyFraction {
		g.told, pt.unreportedBytes = true, 0
	} else {
		pt.unreportedBytes = g.bytes
	}
}
