package consumer

import (
	"context"
	"iter"
	"slices"

	"github.com/stratalog/strata/record"
)

// Poll returns the next records, at most MaxPollRecords. It waits until there is at least one. With
// CommitProcessed, the next call of Poll, Records, Batches or Run marks these records as processed
// (Kafka: enable.auto.commit). Close never commits the last batch handed out.
//
// If ctx is done first, Poll returns an error that matches ctx.Err(). It also wraps the error that
// keeps the consumer out of its group, if there is one. Otherwise Poll returns ErrWakeup,
// ErrClosed, ErrConcurrentPoll, a fatal error of the group, or the *PartitionError of one
// partition.
//
// With CommitBeforeDelivery it also returns an error of the commit, such as ErrRebalanced if a
// partition now belongs to another member. In that case no records were handed out, and the next
// Poll fetches the same ones. Records and Batches yield that error and continue.
func (c *Consumer) Poll(ctx context.Context) (*Batch, error) {
	if err := c.startPolling(false); err != nil {
		return nil, err
	}
	defer c.stopPolling()
	b, err := c.poll(ctx)
	if err != nil {
		return nil, c.interrupted(err)
	}
	return b, nil
}

// Batches yields the batches of repeated Polls. It ends as Records does.
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

// poller is the state of the goroutine that polls.
type poller struct {
	handed []handout // by the last poll, not processed before the next
}

func (c *Consumer) poll(ctx context.Context) (*Batch, error) {
	b := &Batch{home: &c.recycler}
	// the fetched records may all be aborted, or a seek may come during their commit
	for b.Len() == 0 {
		p, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.fill(b, p); err != nil {
			return nil, err
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

// fill moves fetched records into b, those of p first, up to MaxPollRecords.
func (c *Consumer) fill(b *Batch, p *part) error {
	for room := c.cfg.MaxPollRecords; room > 0 && p != nil; p = c.buffered() {
		n, err := c.take(b, p, room)
		if err != nil {
			if b.Len() == 0 {
				return err
			}
			break // the error comes again when it is this partition's turn
		}
		room -= n
	}
	return nil
}

// pollFetched is poll for records that are fetched already. It returns an empty batch if there are
// none, or if the next poll has changes to handle first.
func (c *Consumer) pollFetched(ctx context.Context) (*Batch, error) {
	b := &Batch{home: &c.recycler}
	if ctx.Err() != nil || c.dirty.Load() {
		return b, nil
	}
	c.progress.Add(1)
	err := c.fill(b, c.buffered())
	c.records.Add(int64(b.Len()))
	return b, err
}

// dropOverturned removes from b the partitions that were sought or paused during the commit of its
// end. Records of paused partitions are handed out again after Resume.
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

// take moves up to room records from p's chunk into b. An error behind records, of p or of others,
// is kept for the next call.
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
		d.position.Store(rs[len(rs)-1].Offset + 1)
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

// batchProcessed marks the records of the last poll as processed.
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
