package consumer

import (
	"context"
	"iter"

	"github.com/stratalog/strata/record"
)

// Records yields records one by one, for ever: the loop ends when ctx is done, after Wakeup or
// Close (without an error pair), after a fatal error (yielded once), or by break. A damaged
// partition yields its error once and is paused, the others go on. A loop that begins after Close
// yields ErrClosed.
//
// With CommitProcessed a record counts as processed when the loop comes back for the next one.
// After break, return or a panic the record in hand does not, and a new iteration starts with it
// again, unless the application committed it. The records alias fetched memory that is garbage
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

// recordsOnce yields what is fetched of one partition, waiting for it. False: the loop was left.
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

// yieldChunk hands out what is fetched of p, until that ends or
// something happened. False: the loop was left.
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
			d.epoch.Store(r.LeaderEpoch)
			return true
		}
	}
}

// yieldCommitted hands out a batch whose end is committed. If the loop is left, or something
// happened meanwhile, what was not handed out comes again.
func (c *Consumer) yieldCommitted(b *Batch, yield func(record.Record, error) bool) (more bool) {
	// partition of the batch, and offset in it, from which on nothing was yielded
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

// chunkDone moves the position behind what no reader sees: markers, aborted transactions, gaps of
// compaction.
func (p *part) chunkDone() {
	d, pos := p.chunk.d, p.chunk.d.position.Load()
	if next := p.chunk.next; next > pos {
		d.pass(next)
		if d.processed.Load() == pos {
			d.done(next)
		}
	}
	d.epoch.Store(p.chunk.epoch)
	p.chunk = chunk{}
}
