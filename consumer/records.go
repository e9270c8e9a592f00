package consumer

import (
	"context"
	"iter"

	"github.com/stratalog/strata/record"
)

// Records yields records one by one without end. The loop ends when ctx is done or after Wakeup or
// Close (in these cases without an error), after a fatal error (yielded once), or by break. A
// damaged partition yields its error once and is paused; the others continue. A loop that begins
// after Close yields ErrClosed.
//
// With CommitProcessed a record counts as processed when the loop requests the next one. After
// break, return or a panic the current record is not processed, and a new iteration starts with it
// again unless the application committed it. The records alias fetched memory that is garbage
// collected: they may be kept, read-only.
func (c *Consumer) Records(ctx context.Context) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if err := c.startPolling(true); err != nil {
			yield(record.Record{}, err)
			return
		}
		defer c.stopPolling()
		defer context.AfterFunc(ctx, c.lookUp)()
		for {
			more, err := c.recordsOnce(ctx, yield)
			if err != nil {
				more = !c.quiet(ctx, err) && yield(record.Record{}, err) && !c.isFatal(err)
			}
			if !more {
				return
			}
		}
	}
}

// recordsOnce yields the fetched records of one partition, and waits for some. It returns false if
// the loop ended.
func (c *Consumer) recordsOnce(ctx context.Context, yield func(record.Record, error) bool) (more bool, err error) {
	if c.cfg.Commit != CommitBeforeDelivery {
		p, err := c.next(ctx)
		if err != nil {
			return true, err
		}
		return c.yieldChunk(p, yield), nil
	}
	b, err := c.poll(ctx) // in small steps: each is committed before it is yielded
	if err != nil {
		return true, err
	}
	return c.yieldCommitted(b, yield), nil
}

// yieldChunk yields the fetched records of p until there are none or an event happens. It returns
// false if the loop ended.
func (c *Consumer) yieldChunk(p *part, yield func(record.Record, error) bool) (more bool) {
	d, inHand, first := p.chunk.d, false, true
	p.chunk.keepBytes()
	var r record.Record
	defer func() {
		if inHand { // left by break or panic: the record comes again
			d.undoUncommitted(p, r.Offset)
		}
	}()
	for {
		ok, err := p.chunk.record(p.tp, &r)
		if err != nil {
			return yield(record.Record{}, c.damaged(p, err))
		}
		if !ok {
			p.chunkDone()
			return true
		}
		if first {
			d.pass(r.Offset)
			first = false
		}
		d.position.Store(r.Offset + 1)
		inHand = true
		c.records.Add(1)
		if !yield(r, nil) {
			return false
		}
		inHand = false
		d.done(r.Offset + 1)
		if c.dirty.Load() {
			return true
		}
	}
}

// yieldCommitted yields a batch whose end is committed. If the loop ends, or an event happens, the
// remaining records are fetched again.
func (c *Consumer) yieldCommitted(b *Batch, yield func(record.Record, error) bool) (more bool) {
	// partition of the batch, and offset in it, at which the remaining records start
	at, next := 0, int64(0)
	defer func() {
		for i, h := range c.poller.handed {
			switch {
			case i == at:
				h.d.undo(h.p, next)
			case i > at:
				h.d.undo(h.p, h.first)
			}
		}
		c.poller.handed = c.poller.handed[:0]
	}()
	for i, h := range c.poller.handed {
		at, next = i, h.first
		for _, r := range b.parts[i].records {
			next = r.Offset + 1
			if !yield(r, nil) {
				return false
			}
			h.d.done(next)
			c.progress.Add(1)
			if c.dirty.Load() {
				return true
			}
		}
		next = h.next
	}
	at = len(c.poller.handed)
	return true
}

// chunkDone moves the position past invisible records: control batches, aborted transactions, gaps
// of compaction.
func (p *part) chunkDone() {
	d, pos := p.chunk.d, p.chunk.d.position.Load()
	if next := p.chunk.next; next > pos {
		idle := d.inHandNone(pos)
		d.pass(next)
		if idle {
			d.done(next)
		}
	}
	p.chunk = chunk{}
}
