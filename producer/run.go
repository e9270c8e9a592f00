package producer

import (
	"context"

	"github.com/stratalog/strata/record"
)

// maxRunRecords bounds the records added per acquisition of a partition's lock.
const maxRunRecords = 64

// SendAllAsync is SendAsync for each of rs, in order, at two thirds of the cost: adjacent records
// of the same batch share lookups, memory reservation and locks. done, which may be nil, is called
// for each record. rs and its bytes are borrowed until SendAllAsync returns.
//
// It may wait in the middle, as SendAsync does; earlier records are already being sent then.
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

// A runSender sends the records of one SendAllAsync, run by run. A run is a sequence of adjacent
// records that fit into the open batch of one partition.
type runSender struct {
	p   *Producer
	to  recipient
	now int64 // timestamp for records of the run without one

	// next is the placement of the first record of the next run, or its error, if placed is true:
	// no partitioner is called twice for a record.
	next   placement
	err    error
	placed bool

	refusal error // of the first record that was not accepted
}

// refused reports that a record was not accepted.
func (s *runSender) refused(r *record.Record, err error) {
	if s.refusal == nil {
		s.refusal = err
	}
	s.p.refused(*r, s.to.done, err)
}

// send sends the first run of rs and returns its number of records, at least one.
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
	for i := taken; i < n; i++ { // memory is short, or the batch has changed
		s.put(ctx, &rs[i], first)
	}
	return n
}

// extend returns the number and size of the records in a run that begins with a record for the
// given place. If the following record was placed elsewhere, its placement is stored.
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

// putRun appends records whose memory is acquired, and returns how many it appended.
func (s *runSender) putRun(rs []record.Record, bytes int64, at *placement) int {
	e := entry{recipient: s.to, layout: at.view.layout, chosen: at.chosen && s.p.cfg.aware != nil}
	n, took, grown := at.part.appendRun(rs, &e, s.now)
	if took < bytes {
		s.p.memory.release(bytes - took)
	}
	s.p.notifyPartitioner(at, grown)
	return n
}

// put sends a single record.
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

// room returns the number of bytes that the open batch can still hold.
func (pt *partitionQueue) room() int64 {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	if b := pt.tail; b != nil && b.state == open {
		return int64(b.limit - b.builder.Size())
	}
	return 0
}

// appendRun adds records to the open batch while it does not become full, and returns their number
// and size. Unlike append it neither begins nor completes a batch, so there is nothing to drain.
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
		if int64(b.builder.Size())+e.size >= int64(b.limit) || !b.add(r, e) {
			break
		}
		n, bytes = n+1, bytes+e.size
	}
	g.bytes = b.builder.Size() - before
	pt.noteGrowthLocked(b, &g, e.chosen, false)
	return n, bytes, g
}

// noteGrowthLocked decides whether a partitioner is notified of g, the growth by records that it
// placed; b is their batch. turned is true if a batch was begun, completed or extended.
func (pt *partitionQueue) noteGrowthLocked(b *batch, g *growth, chosen, turned bool) {
	if !chosen {
		return
	}
	g.full = g.full || b.state != open || b.extended()
	if g.bytes += pt.unreportedBytes; turned || g.bytes >= pt.p.cfg.BatchBytes/notifyFraction {
		g.notify, pt.unreportedBytes = true, 0
	} else {
		pt.unreportedBytes = g.bytes
	}
}
