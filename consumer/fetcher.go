package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
)

// fetcher holds data reused by fetches. It belongs to the polling goroutine.
type fetcher struct {
	request  partition.FetchRequest
	fetching []fetching // the partitions of the request, in its order
}

// fetching is a partition in a fetch, with the requested delivery and position.
type fetching struct {
	p    *part
	d    *delivery
	from int64
}

// fetch requests records of every partition without buffered ones, and waits until there are some
// or another event happens. The error is to be reported.
func (c *Consumer) fetch(ctx context.Context) error {
	wait, ok := c.beginWait(ctx)
	if !ok {
		return nil // handleChanges handles the event
	}
	defer c.endWait()
	req, parts, again := c.fetchRequest()
	if len(parts) == 0 {
		// until partitions are assigned, resumed, sought or tried again, or ctx is done
		pause(wait, again)
		return nil
	}
	mem := c.recycler.buffer(len(parts), c.cfg.PartitionBytes, c.cfg.MaxBytes)
	defer mem.drop()
	if mem != nil {
		req.Buf = mem.buf
	}
	resp, err := c.logs.Fetch(wait, req)
	switch {
	case wait.Err() != nil:
		return nil
	case retriable.Final(err):
		c.fail(fmt.Errorf("consumer: fetch: %w", err))
		return nil
	case err == nil && !inOrder(parts, resp):
		err = errors.New("the answer is not in the order of the request")
	}
	if err != nil {
		var report error
		for _, f := range parts {
			report = errors.Join(report, c.noteTroubled(f.p, f.d, fmt.Errorf("fetch: %w", err), true))
		}
		return report
	}
	return c.keep(parts, resp, mem)
}

// pause waits for d, or without end if d is negative, and ends early with ctx.
func pause(ctx context.Context, d time.Duration) {
	switch {
	case d == 0:
		return
	case d < 0:
		<-ctx.Done()
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// fetchRequest lists the partitions to fetch. The order rotates, so that under a byte limit each is
// first in its turn. A partition in trouble is left out until its next attempt is due, and the
// fetch waits no longer than that; again is that time, negative if there is none.
func (c *Consumer) fetchRequest() (req *partition.FetchRequest, parts []fetching, again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req = &c.fetcher.request
	*req = partition.FetchRequest{
		MinBytes: c.cfg.MinBytes, MaxBytes: c.cfg.MaxBytes, MaxWait: c.cfg.MaxWait, Isolation: c.cfg.Isolation, Rack: c.cfg.Rack,
		Partitions: req.Partitions[:0],
	}
	parts, again = c.fetcher.fetching[:0], -1
	for _, p := range c.order {
		if p.failed != nil {
			continue
		}
		if t := p.trouble.until; !t.IsZero() {
			if d := time.Until(t); d > 0 {
				if again < 0 || d < again {
					again = d
				}
				continue
			}
		}
		pos := p.d.position.Load()
		if p.paused || pos < 0 || p.chunk.left() || c.runner != nil && c.runner.full(p) {
			continue
		}
		req.Partitions = append(req.Partitions, partition.FetchPartition{
			TopicPartition: p.tp, TopicID: p.id, Offset: pos, MaxBytes: c.cfg.PartitionBytes,
			CurrentLeaderEpoch: p.leader, LastFetchedEpoch: p.d.epoch.Load(),
		})
		parts = append(parts, fetching{p, p.d, pos})
	}
	if len(c.order) > 1 {
		first := c.order[0]
		copy(c.order, c.order[1:])
		c.order[len(c.order)-1] = first
	}
	c.fetcher.fetching = parts
	if again >= 0 {
		again = max(again, time.Millisecond)
		req.MaxWait = min(req.MaxWait, again)
	}
	return req, parts, again
}

func inOrder(parts []fetching, resp *partition.FetchResponse) bool {
	if len(resp.Partitions) != len(parts) {
		return false
	}
	for i := range parts {
		if parts[i].p.tp != resp.Partitions[i].TopicPartition {
			return false
		}
	}
	return true
}

// keep stores the result of a fetch, some of it in mem.
func (c *Consumer) keep(parts []fetching, resp *partition.FetchResponse, mem *fetchBuffer) (report error) {
	c.recycler.last = 0
	for i := range resp.Partitions {
		c.recycler.last += len(resp.Partitions[i].Bytes)
		if err := c.keepOne(parts[i], &resp.Partitions[i], mem); err != nil {
			report = errors.Join(report, err)
		}
	}
	return report
}

func (c *Consumer) keepOne(f fetching, fp *partition.FetchedPartition, mem *fetchBuffer) error {
	var truncated *TruncatedError
	outside := errors.As(fp.Err, &truncated) || errors.Is(fp.Err, partition.ErrOffsetOutOfRange)
	switch {
	case fp.Err == nil && fp.HighWatermark < 0: // the leader has not responded
		return nil
	case errors.Is(fp.Err, partition.ErrFencedLeaderEpoch) && f.p.leader >= 0 && !retriable.Final(fp.Err):
		f.p.leader = -1 // there is a new leader: the next fetch has its epoch
		return nil
	case fp.Err != nil && (!outside || retriable.Final(fp.Err)):
		return c.troubled(f.p, f.d, fp.Err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Fetches++
	c.stats.Bytes += int64(len(fp.Bytes))
	p := f.p
	if p.d != f.d || c.parts[p.tp] != p {
		return nil // sought or given up meanwhile
	}
	if fp.Err == nil {
		p.trouble, p.leader = trouble{}, fp.LeaderEpoch
		p.end = fp.HighWatermark
		if c.cfg.Isolation == ReadCommitted {
			p.end = fp.LastStableOffset
		}
		if len(fp.Bytes) > 0 {
			p.chunk = newChunk(f.d, f.from, fp)
			p.chunk.mem = mem.share(fp)
		}
		return nil
	}
	if c.cfg.Reset.kind == resetFail {
		p.failed = &PartitionError{p.tp, f.from, fmt.Errorf("%w: %w", ErrNoOffset, fp.Err)}
		return p.failed
	}
	c.cfg.Logger.Warn("position is out of range, reset", "topic", p.tp.Topic, "partition", p.tp.Partition, "offset", f.from, "err", fp.Err)
	if truncated == nil {
		p.restart(StartReset)
		return nil
	}
	c.stats.Resets++
	p.restart(truncated.EndOffset)
	p.d.epoch.Store(truncated.Epoch)
	p.d.done(truncated.EndOffset) // committed, so that the group does not continue beyond it
	return nil
}

// isOfPartition reports whether an error concerns only partitions, while the others continue.
func isOfPartition(err error) bool {
	var pe *PartitionError
	return errors.As(err, &pe)
}

// damaged stops reading p, whose bytes cannot be decoded.
func (c *Consumer) damaged(p *part, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := &PartitionError{TopicPartition: p.tp, Offset: p.chunk.d.position.Load(), Err: err}
	if p.chunk.d == p.d {
		p.failed = failed
	}
	p.chunk = chunk{}
	return failed
}

// A waiter lets other goroutines interrupt the polling goroutine's wait. Guarded by Consumer.mu.
type waiter struct {
	waiting bool
	ctx     context.Context    // of all waits until one is interrupted; nil while no goroutine polls
	cancel  context.CancelFunc // ends ctx
}

// beginWait returns a context that ends when the poller is needed elsewhere. ok is false if it
// already is. The context is usually reused from the previous wait, since a new one for each
// fetch costs more than the fetch. The caller must call endWait.
func (c *Consumer) beginWait(ctx context.Context) (wait context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirty.Load() {
		return nil, false
	}
	if c.waiter.ctx == nil || c.waiter.ctx.Err() != nil {
		if c.waiter.cancel != nil {
			c.waiter.cancel()
		}
		c.waiter.ctx, c.waiter.cancel = context.WithCancel(ctx)
	}
	c.waiter.waiting = true
	return c.waiter.ctx, true
}

func (c *Consumer) endWait() {
	c.mu.Lock()
	c.waiter.waiting = false
	c.mu.Unlock()
}

// wakeLocked makes the poller check the state: now, if it waits, else before the next record.
func (c *Consumer) wakeLocked() {
	c.dirty.Store(true)
	if c.runner != nil && (c.closing || c.woken || c.fatal != nil) {
		c.runner.end()
	}
	if c.waiter.waiting {
		c.waiter.cancel()
	}
}
