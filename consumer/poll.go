package consumer

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/stratalog/strata/record"
)

// Records yields records one by one, for ever: the loop ends when ctx is done, after Wakeup or Close (without an error pair), after a
// fatal error (yielded once), or by break. A damaged partition yields its error once and is paused, the others go on.
//
// With CommitProcessed a record counts as processed when the loop comes back for the next one. After break, return or a panic the record
// in hand does not, and a new iteration starts with it again; with CommitManual it does so unless it was committed.
// The records alias fetched memory that is garbage collected: they may be kept, read-only.
func (c *Consumer) Records(ctx context.Context) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if err := c.startPolling(); err != nil {
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
	defer c.batchProcessed()
	for r := range b.All() {
		if !yield(r, nil) {
			c.goOnBehind(r)
			return false, nil
		}
		c.progress.Add(1)
	}
	return true, nil
}

// goOnBehind makes a new iteration start behind r, although more is committed.
func (c *Consumer) goOnBehind(r record.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := false
	for _, h := range c.handed {
		if h.p.gen.Load() != h.gen {
			continue
		}
		switch {
		case h.p.tp.Topic == r.Topic && h.p.tp.Partition == r.Partition:
			h.p.position.Store(r.Offset + 1)
			seen = true
		case seen:
			h.p.position.Store(h.first)
		default:
			continue
		}
		h.p.chunk = chunk{}
	}
}

// drain hands out what is fetched of p, until that ends or something happened. False: the loop was left.
func (c *Consumer) drain(p *part, yield func(record.Record, error) bool) (more bool) {
	gen, offset, inHand := p.chunk.gen, int64(0), false
	defer func() {
		if inHand { // left by break or panic: the record goes back
			c.giveBack(p, gen, offset)
		}
	}()
	var r record.Record
	for {
		ok, err := p.chunk.record(p.tp, &r)
		if err != nil {
			return yield(record.Record{}, c.damaged(p, err))
		}
		if !ok {
			c.chunkDone(p)
			return true
		}
		p.position.Store(r.Offset + 1)
		offset, inHand = r.Offset, true
		c.countRecords(1)
		if !yield(r, nil) {
			return false
		}
		inHand = false
		if p.gen.Load() == gen {
			p.processed.Store(r.Offset + 1)
		}
		c.progress.Add(1)
		if c.dirty.Load() {
			p.epochOf(r.LeaderEpoch)
			return true
		}
	}
}

// giveBack makes a new iteration start with the record in hand again.
func (c *Consumer) giveBack(p *part, gen, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.gen.Load() != gen || c.cfg.Commit == CommitBeforeDelivery {
		return
	}
	if c.cfg.Commit == CommitManual && p.committed > offset {
		return
	}
	p.position.Store(offset)
	p.chunk = chunk{}
}

// chunkDone moves the position behind what no reader sees: markers, aborted transactions, gaps of compaction.
func (c *Consumer) chunkDone(p *part) {
	if p.gen.Load() != p.chunk.gen {
		p.chunk = chunk{}
		return
	}
	pos := p.position.Load()
	if next := p.chunk.next; next > pos {
		p.position.Store(next)
		if p.processed.Load() == pos {
			p.processed.Store(next)
		}
	}
	p.epochOf(p.chunk.epoch)
	p.chunk = chunk{}
}

func (p *part) epochOf(epoch int32) { p.lastEpoch.Store(epoch) }

// Poll returns the next records, at most MaxPollRecords, waiting until there is one. It is the classic loop: with CommitProcessed, calling
// Poll again says that the records of the last one are processed (Kafka: enable.auto.commit); Close never commits the last batch handed out.
//
// It returns ctx.Err() if ctx is done first, ErrWakeup, ErrClosed, ErrConcurrentPoll, a fatal error of the group, or the error of one partition.
// With CommitBeforeDelivery also the error of the commit, then nothing was handed out and the next Poll comes to the same records:
// ErrRebalanced if a partition was given to another member meanwhile. Records and Batches yield it and go on.
func (c *Consumer) Poll(ctx context.Context) (*Batch, error) {
	if err := c.startPolling(); err != nil {
		return nil, err
	}
	defer c.stopPolling()
	c.batchProcessed()
	return c.poll(ctx)
}

// Batches yields one Poll after the other; it ends as Records does.
func (c *Consumer) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := c.startPolling(); err != nil {
			yield(nil, err)
			return
		}
		defer c.stopPolling()
		left := true
		defer func() {
			if left {
				c.batchGivenBack()
			}
		}()
		for {
			b, err := c.poll(ctx)
			if err != nil && c.quiet(ctx, err) {
				left = false
				return
			}
			if !yield(b, err) {
				return
			}
			if err != nil && c.isFatal(err) {
				left = false
				return
			}
			c.batchProcessed()
			c.progress.Add(1)
		}
	}
}

// handedOut is a stretch of a partition that the application has in hand.
type handedOut struct {
	p          *part
	gen        int64
	first, end int64
}

func (c *Consumer) poll(ctx context.Context) (*Batch, error) {
	b := &Batch{}
	for b.Len() == 0 { // what was fetched may be all aborted
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
	}
	c.countRecords(b.Len())
	if c.cfg.Commit == CommitBeforeDelivery {
		if err := c.commitHanded(ctx); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// take moves up to room records from p's chunk into b. An error that comes behind records, of p or of others, stays for the next time.
func (c *Consumer) take(b *Batch, p *part, room int) (int, error) {
	rs := make([]record.Record, 0, p.chunk.atMost(room))
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
	gen, before := p.chunk.gen, p.position.Load()
	if len(rs) > 0 {
		last := rs[len(rs)-1]
		p.position.Store(last.Offset + 1)
		p.epochOf(last.LeaderEpoch)
		b.add(p.tp, rs)
	}
	if failed == nil && !p.chunk.left() {
		c.chunkDone(p)
	}
	if len(rs) > 0 {
		c.mu.Lock()
		c.handed = append(c.handed, handedOut{p, gen, before, p.position.Load()})
		c.mu.Unlock()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handed {
		if h.p.gen.Load() == h.gen {
			h.p.processed.Store(h.end)
		}
	}
	c.handed = c.handed[:0]
}

// batchGivenBack makes a new iteration start with the last poll's records again.
func (c *Consumer) batchGivenBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Commit == CommitBeforeDelivery {
		c.handed = c.handed[:0]
		return
	}
	for _, h := range slices.Backward(c.handed) {
		first := h.first
		if c.cfg.Commit == CommitManual {
			first = max(first, min(h.p.committed, h.end))
		}
		if h.p.gen.Load() == h.gen {
			h.p.position.Store(first)
			h.p.chunk = chunk{}
		}
	}
	c.handed = c.handed[:0]
}

// next returns a partition that has records to hand out, waiting until there is one.
func (c *Consumer) next(ctx context.Context) (*part, error) {
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

// buffered returns a partition with something fetched, nil if there is none, dropping what a seek made stale.
func (c *Consumer) buffered() *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.order {
		if p.chunk.left() && p.chunk.gen != p.gen.Load() {
			p.chunk = chunk{}
		}
		if p.ready() && (c.runner == nil || !c.runner.full(p)) {
			return p
		}
	}
	return nil
}

func (c *Consumer) startPolling() error {
	if !c.polling.CompareAndSwap(false, true) {
		return ErrConcurrentPoll
	}
	c.progress.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		c.polling.Store(false)
		return ErrClosed
	}
	return nil
}

func (c *Consumer) stopPolling() {
	c.progress.Add(1)
	c.dropWait()
	c.polling.Store(false)
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

// damaged stops reading p, whose bytes cannot be decoded.
func (c *Consumer) damaged(p *part, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = &PartitionError{TopicPartition: p.tp, Offset: p.position.Load(), Err: err}
	p.failed = err
	p.chunk = chunk{}
	return err
}

func (c *Consumer) countRecords(n int) {
	c.records.Add(int64(n))
}
