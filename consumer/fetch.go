package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Back-off after a fetch that failed as a whole, doubling.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// fetch asks for more of every partition that has nothing left, and waits until there is something or something else happens.
func (c *Consumer) fetch(ctx context.Context) error {
	wait, ok := c.beginWait(ctx)
	if !ok {
		return nil // something happened meanwhile: settle looks at it
	}
	defer c.endWait()
	req, parts := c.fetchRequest()
	if len(parts) == 0 {
		<-wait.Done() // until partitions are assigned, resumed or sought, or ctx is done
		return nil
	}
	resp, err := c.logs.Fetch(wait, req)
	if wait.Err() != nil {
		return nil
	}
	if err != nil {
		return c.backOff(wait, fmt.Errorf("consumer: fetch: %w", err))
	}
	return c.keep(wait, parts, resp)
}

// beginWait returns a context that ends when the poller is needed elsewhere. ok is false if it is needed already.
// Mostly it is the one of the wait before: making one for each fetch cost more than the fetch. endWait must follow.
func (c *Consumer) beginWait(ctx context.Context) (wait context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirty.Load() {
		return nil, false
	}
	if c.wait == nil || c.wait.Err() != nil {
		if c.interrupt != nil {
			c.interrupt()
		}
		c.wait, c.interrupt = context.WithCancel(ctx)
	}
	c.inWait = true
	return c.wait, true
}

func (c *Consumer) endWait() {
	c.mu.Lock()
	c.inWait = false
	c.mu.Unlock()
}

// dropWait lets go of the context of the last wait.
func (c *Consumer) dropWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupt != nil {
		c.interrupt()
		c.wait, c.interrupt = nil, nil
	}
}

// fetchRequest lists the partitions to fetch; the order rotates, so that under a byte limit each comes first in its turn.
func (c *Consumer) fetchRequest() (*partition.FetchRequest, []fetching) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req := &c.request
	*req = partition.FetchRequest{
		MinBytes: c.cfg.MinBytes, MaxBytes: c.cfg.MaxBytes, MaxWait: c.cfg.MaxWait, Isolation: c.cfg.Isolation, Rack: c.cfg.Rack,
		Partitions: req.Partitions[:0],
	}
	parts := c.fetching[:0]
	for _, p := range c.order {
		pos := p.position.Load()
		if p.paused || p.failed != nil || pos < 0 || p.chunk.left() || c.runner != nil && c.runner.full(p) {
			continue
		}
		req.Partitions = append(req.Partitions, partition.FetchPartition{
			TopicPartition: p.tp, Offset: pos, MaxBytes: c.cfg.PartitionBytes, CurrentLeaderEpoch: -1,
		})
		parts = append(parts, fetching{p, p.gen.Load(), pos})
	}
	if len(c.order) > 1 {
		first := c.order[0]
		copy(c.order, c.order[1:])
		c.order[len(c.order)-1] = first
	}
	c.fetching = parts
	return req, parts
}

// fetching is a partition in a fetch, with the position that was asked for.
type fetching struct {
	p    *part
	gen  int64
	from int64
}

// keep takes what a fetch brought.
func (c *Consumer) keep(wait context.Context, parts []fetching, resp *partition.FetchResponse) error {
	var failed error
	var retry error
	for i := range resp.Partitions {
		fp := &resp.Partitions[i]
		if i >= len(parts) || parts[i].p.tp != fp.TopicPartition {
			return c.backOff(wait, errors.New("consumer: fetch: the answer is not in the order of the request"))
		}
		err := c.keepOne(parts[i], fp)
		switch {
		case err == nil:
		case isFinal(err):
			failed = errors.Join(failed, err)
		default:
			retry = err
		}
	}
	if failed == nil && retry != nil {
		return c.backOff(wait, retry)
	}
	c.mu.Lock()
	c.backoff = 0
	c.mu.Unlock()
	return failed
}

func (c *Consumer) keepOne(f fetching, fp *partition.FetchedPartition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Fetches++
	c.stats.Bytes += int64(len(fp.Bytes))
	p := f.p
	if p.lost || p.gen.Load() != f.gen {
		return nil // sought or given up meanwhile
	}
	switch {
	case fp.Err == nil:
		p.end, p.known = fp.HighWatermark, true
		if c.cfg.Isolation == ReadCommitted {
			p.end = fp.LastStableOffset
		}
		if len(fp.Bytes) > 0 {
			p.chunk = newChunk(f.gen, f.from, fp)
		}
		return nil
	case errors.Is(fp.Err, partition.ErrOffsetOutOfRange):
		if c.cfg.Reset.kind == resetFail {
			p.failed = &PartitionError{p.tp, f.from, fmt.Errorf("%w: %w", ErrNoOffset, fp.Err)}
			return p.failed
		}
		c.cfg.Logger.Warn("position is out of range, reset", "topic", p.tp.Topic, "partition", p.tp.Partition, "offset", f.from)
		p.position.Store(-1)
		p.start = StartReset
		p.gen.Add(1)
		return nil
	case errors.Is(fp.Err, record.ErrCorrupt):
		p.failed = &PartitionError{p.tp, f.from, fp.Err}
		return p.failed
	default:
		return fmt.Errorf("consumer: fetch %s-%d: %w", p.tp.Topic, p.tp.Partition, fp.Err)
	}
}

// isFinal reports whether an error of a partition is to be told rather than retried.
func isFinal(err error) bool {
	var pe *PartitionError
	return errors.As(err, &pe)
}

// backOff waits before a retry; a change of the cluster's metadata ends it early.
func (c *Consumer) backOff(wait context.Context, err error) error {
	c.mu.Lock()
	c.backoff = min(max(2*c.backoff, minBackoff), maxBackoff)
	d := c.backoff
	c.mu.Unlock()
	c.cfg.Logger.Debug("fetch failed, trying again", "err", err, "backoff", d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wait.Done():
	}
	return nil
}

// locate finds the position of partitions that have none: the application's own store, the group's, the reset policy.
func (c *Consumer) locate(ctx context.Context) error {
	unknown, fresh := c.unlocated()
	if len(unknown) == 0 {
		return nil
	}
	starts := record.Offsets{}
	if c.cfg.StartAt != nil && len(fresh) > 0 {
		own, err := c.cfg.StartAt(ctx, fresh)
		if err != nil {
			return fmt.Errorf("consumer: StartAt: %w", err)
		}
		for tp, off := range own {
			if off < StartReset {
				return fmt.Errorf("consumer: StartAt: offset %d for %s-%d", off, tp.Topic, tp.Partition)
			}
			starts[tp] = off
		}
	}
	if err := c.addCommitted(ctx, fresh, starts); err != nil {
		return err
	}
	return c.resolve(ctx, unknown, starts)
}

// unlocated returns the partitions without a position, and those of them that never had one.
func (c *Consumer) unlocated() (unknown, fresh []record.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.order {
		if p.position.Load() >= 0 || p.failed != nil {
			continue
		}
		unknown = append(unknown, p.tp)
		if !p.located {
			fresh = append(fresh, p.tp)
		}
	}
	return unknown, fresh
}

// addCommitted adds the group's offsets to starts, where there is none yet.
func (c *Consumer) addCommitted(ctx context.Context, tps []record.TopicPartition, starts record.Offsets) error {
	if c.groups == nil {
		return nil
	}
	var ask []record.TopicPartition
	for _, tp := range tps {
		if _, ok := starts[tp]; !ok && c.startOf(tp) == StartReset {
			ask = append(ask, tp)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	committed, err := c.groups.FetchOffsets(ctx, c.cfg.Group, ask)
	if err != nil {
		return c.retryLater(ctx, fmt.Errorf("consumer: committed offsets of %s: %w", c.cfg.Group, err))
	}
	for tp, co := range committed {
		if co.Offset >= 0 {
			starts[tp] = co.Offset
		}
	}
	return nil
}

func (c *Consumer) startOf(tp record.TopicPartition) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parts[tp]; p != nil {
		return p.start
	}
	return StartReset
}

// resolve turns starting points into positions.
func (c *Consumer) resolve(ctx context.Context, tps []record.TopicPartition, starts record.Offsets) error {
	ask := map[record.TopicPartition]partition.OffsetSpec{}
	found := record.Offsets{}
	var failed error
	for _, tp := range tps {
		start, ok := starts[tp]
		if !ok {
			start = c.startOf(tp)
		}
		switch {
		case start >= 0:
			found[tp] = start
		case start == StartEarliest:
			ask[tp] = partition.Earliest
		case start == StartLatest:
			ask[tp] = partition.Latest
		case c.cfg.Reset.kind == resetFail:
			failed = errors.Join(failed, c.noOffset(tp))
		default:
			ask[tp] = c.cfg.Reset.spec()
			c.mu.Lock()
			c.stats.Resets++
			c.mu.Unlock()
		}
	}
	if len(ask) > 0 {
		if err := c.askOffsets(ctx, ask, found); err != nil {
			return c.retryLater(ctx, err)
		}
	}
	c.place(found)
	return failed
}

// askOffsets adds the offsets that the log has for the questions in ask.
func (c *Consumer) askOffsets(ctx context.Context, ask map[record.TopicPartition]partition.OffsetSpec, found record.Offsets) error {
	got, err := c.logs.ListOffsets(ctx, ask, c.cfg.Isolation)
	if err != nil {
		return fmt.Errorf("consumer: list offsets: %w", err)
	}
	ends := map[record.TopicPartition]partition.OffsetSpec{}
	var retry error
	for tp := range ask {
		switch r, ok := got[tp]; {
		case !ok:
		case r.Err != nil:
			retry = fmt.Errorf("consumer: list offsets of %s-%d: %w", tp.Topic, tp.Partition, r.Err)
		case r.Offset >= 0:
			found[tp] = r.Offset
		default:
			ends[tp] = partition.Latest // nothing that late: the end
		}
	}
	if len(ends) > 0 {
		return c.askOffsets(ctx, ends, found)
	}
	if retry != nil && len(found) == 0 {
		return retry
	}
	return nil
}

func (c *Consumer) place(found record.Offsets) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp, off := range found {
		if p := c.parts[tp]; p != nil && p.position.Load() < 0 {
			p.position.Store(off)
			p.located = true
		}
	}
}

func (c *Consumer) noOffset(tp record.TopicPartition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[tp]
	if p == nil {
		return nil
	}
	p.failed = &PartitionError{tp, -1, ErrNoOffset}
	return p.failed
}

// retryLater logs an error that may pass and waits a moment.
func (c *Consumer) retryLater(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	wait, ok := c.beginWait(ctx)
	if !ok {
		return nil
	}
	defer c.endWait()
	return c.backOff(wait, err)
}

// spec is the question that a reset policy asks.
func (r Reset) spec() partition.OffsetSpec {
	switch r.kind {
	case resetLatest:
		return partition.Latest
	case resetAt:
		return partition.At(r.at)
	default:
		return partition.Earliest
	}
}
