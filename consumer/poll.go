package consumer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

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
		return c.drain(p, yield), nil
	}
	b, err := c.poll(ctx) // in small steps: each is committed before it is yielded
	if err != nil {
		return true, err
	}
	return c.drainCommitted(b, yield), nil
}

// drain hands out what is fetched of p, until that ends or something happened. False: the loop was
// left.
func (c *Consumer) drain(p *part, yield func(record.Record, error) bool) (more bool) {
	d, inHand := p.chunk.d, false
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

// drainCommitted hands out a batch whose end is committed. If the loop is left, or something
// happened meanwhile, what was not handed out comes again.
func (c *Consumer) drainCommitted(b *Batch, yield func(record.Record, error) bool) (more bool) {
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
		d.position.Store(next)
		if d.processed.Load() == pos {
			d.done(next)
		}
	}
	d.epoch.Store(p.chunk.epoch)
	p.chunk = chunk{}
}

// Poll returns the next records, at most MaxPollRecords, waiting until there is one. It is the
// classic loop: with CommitProcessed, calling Poll again, or Records, Batches or Run, says that the
// records of the last one are processed (Kafka: enable.auto.commit); Close never commits the last
// batch handed out.
//
// It returns ctx.Err() if ctx is done first, ErrWakeup, ErrClosed, ErrConcurrentPoll, a fatal error
// of the group, or the *PartitionError of one partition. With CommitBeforeDelivery also the error
// of the commit, then nothing was handed out and the next Poll comes to the same records:
// ErrRebalanced if a partition was given to another member meanwhile. Records and Batches yield it
// and go on.
func (c *Consumer) Poll(ctx context.Context) (*Batch, error) {
	if err := c.startPolling(false); err != nil {
		return nil, err
	}
	defer c.stopPolling()
	return c.poll(ctx)
}

// Batches yields one Poll after the other; it ends as Records does.
func (c *Consumer) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := c.startPolling(true); err != nil {
			yield(nil, err)
			return
		}
		defer c.stopPolling()
		defer c.batchUndone() // left by break or panic
		for {
			b, err := c.poll(ctx)
			if err != nil && c.quiet(ctx, err) {
				return
			}
			if !yield(b, err) || err != nil && c.isFatal(err) {
				return
			}
			c.batchProcessed()
			c.progress.Add(1)
		}
	}
}

// activity is what the polling goroutine is at, and what is to interrupt it. Guarded by
// Consumer.mu.
type activity struct {
	waiter    waiter
	polling   bool
	loop      int64          // goroutine that runs a loop or callback of the application; 0: none
	helpers   map[int64]bool // other goroutines that run callbacks, see beHelper
	pollEnded chan struct{}  // closed when nobody polls any more; nil: nobody waits for that
	woken     bool
	closing   bool
	commitBy  time.Time // until when commits are tried in a closing consumer's rebalance
	fatal     error     // ends polling for good
}

// poller is what belongs to the goroutine that polls.
type poller struct {
	handed []handout // by the last poll, not processed before the next
}

func (c *Consumer) poll(ctx context.Context) (*Batch, error) {
	b := &Batch{home: &c.recycler}
	// what was fetched may be all aborted, or sought away from while it was committed
	for b.Len() == 0 {
		p, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		for room := c.cfg.MaxPollRecords; room > 0 && p != nil; p = c.buffered() {
			n, err := c.take(b, p, room)
			if err != nil {
				if b.Len() == 0 {
					return nil, err
				}
				break // the error comes again when it is this partition's turn
			}
			room -= n
		}
		if c.cfg.Commit == CommitBeforeDelivery && b.Len() > 0 {
			if err := c.commitHanded(ctx); err != nil {
				return nil, err
			}
			c.dropOverturned(b)
		}
	}
	c.records.Add(int64(b.Len()))
	return b, nil
}

// dropOverturned takes out of b what a seek or a pause came for while its end was being committed.
// What is paused comes again when it is resumed.
func (c *Consumer) dropOverturned(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts, handed := b.parts[:0], c.poller.handed[:0]
	for i, h := range c.poller.handed {
		if h.p.d != h.d || h.p.paused {
			h.d.undo(h.p, h.first)
			b.n -= len(b.parts[i].records)
			continue
		}
		parts, handed = append(parts, b.parts[i]), append(handed, h)
	}
	b.parts, c.poller.handed = parts, handed
}

// take moves up to room records from p's chunk into b. An error that comes behind records, of p or
// of others, stays for the next time.
func (c *Consumer) take(b *Batch, p *part, room int) (int, error) {
	rs := c.recycler.records(p.chunk.atMost(room))
	var failed error
	for more := true; more && len(rs) < room; {
		if len(rs) == cap(rs) { // the end, if atMost was right
			var r record.Record
			if more, failed = p.chunk.record(p.tp, &r); more {
				rs = append(rs, r)
			}
			continue
		}
		rs = rs[:len(rs)+1] // decoded in place: a copy costs as much as decoding
		if more, failed = p.chunk.record(p.tp, &rs[len(rs)-1]); !more {
			rs = rs[:len(rs)-1]
		}
	}
	d := p.chunk.d
	first := d.position.Load()
	if len(rs) > 0 {
		last := &rs[len(rs)-1]
		d.position.Store(last.Offset + 1)
		d.epoch.Store(last.LeaderEpoch)
		b.add(p.tp, rs, &p.chunk)
	}
	if failed == nil && !p.chunk.left() {
		mem := p.chunk.mem
		p.chunkDone()
		mem.drop()
	}
	if len(rs) > 0 {
		c.poller.handed = append(c.poller.handed, handout{p, d, first, d.position.Load()})
	}
	if failed == nil || len(rs) > 0 {
		return len(rs), nil
	}
	if b.Len() > 0 {
		return 0, failed
	}
	return 0, c.damaged(p, failed)
}

// batchProcessed marks what the last poll handed out as processed.
func (c *Consumer) batchProcessed() {
	for _, h := range c.poller.handed {
		h.d.done(h.next)
	}
	c.poller.handed = c.poller.handed[:0]
}

// batchUndone makes a new iteration start with the last poll's records again.
func (c *Consumer) batchUndone() {
	for _, h := range slices.Backward(c.poller.handed) {
		h.d.undoUncommitted(h.p, h.first)
	}
	c.poller.handed = c.poller.handed[:0]
}

// next returns a partition that has records to hand out, waiting until there is one.
func (c *Consumer) next(ctx context.Context) (*part, error) {
	c.progress.Add(1)
	for {
		if err := c.settle(ctx); err != nil {
			return nil, err
		}
		if p := c.buffered(); p != nil {
			return p, nil
		}
		if err := c.locate(ctx); err != nil {
			return nil, err
		}
		if err := c.fetch(ctx); err != nil {
			return nil, err
		}
	}
}

// settle acts on everything that happened since the last time. It runs on the polling goroutine,
// between two records.
func (c *Consumer) settle(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.dirty.Load() {
		return nil
	}
	for {
		c.mu.Lock()
		c.dirty.Store(false)
		err := c.interruptionLocked()
		if err != nil {
			c.dirty.Store(true) // it lasts, or there is more to look at
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
		if more, err := c.adoptStep(ctx); !more || err != nil {
			return err
		}
	}
}

// interruptionLocked returns what ends a poll.
func (c *Consumer) interruptionLocked() error {
	switch {
	case c.closing:
		return ErrClosed
	case c.fatal != nil:
		return c.fatal
	case c.runner != nil && c.runner.err() != nil: // a handler failed for good
		return c.runner.err()
	case c.woken:
		c.woken = false
		return ErrWakeup
	}
	return nil
}

// buffered returns a partition with something fetched, nil if there is none, dropping what a seek
// made stale.
func (c *Consumer) buffered() *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.order {
		if p.chunk.left() && p.chunk.d != p.d {
			p.chunk = chunk{}
		}
		if p.ready() && (c.runner == nil || !c.runner.full(p)) {
			return p
		}
	}
	return nil
}

// startPolling makes the caller the polling goroutine. loop says that the application's code runs
// before stopPolling.
func (c *Consumer) startPolling(loop bool) error {
	id := int64(0)
	if loop {
		id = goroutineID()
	}
	c.progress.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.polling:
		return ErrConcurrentPoll
	case c.closing:
		return ErrClosed
	}
	c.polling, c.loop = true, id
	c.batchProcessed() // of a Poll before: whoever polls again, in whatever way, is done with that
	return nil
}

func (c *Consumer) stopPolling() {
	c.progress.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiter.cancel != nil {
		c.waiter.cancel()
		c.waiter = waiter{}
	}
	c.polling, c.loop = false, 0
	if c.pollEnded != nil {
		close(c.pollEnded)
		c.pollEnded = nil
	}
}

// lookUp makes the poller look around before the next record.
func (c *Consumer) lookUp() { c.dirty.Store(true) }

// quiet reports whether err ends an iteration without being told.
func (c *Consumer) quiet(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrWakeup) || errors.Is(err, ErrClosed)
}

func (c *Consumer) isFatal(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal != nil && errors.Is(err, c.fatal)
}
