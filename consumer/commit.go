package consumer

import (
	"context"
	"fmt"
	"maps"

	"github.com/stratalog/strata/record"
)

// Commit commits offset+1 of each record, the highest of each partition; of none: nothing. It
// blocks until that is durable. It returns ErrRebalanced if a partition is not this member's any
// more, or was given away and came back since the record was handed out; nothing is committed then.
// ErrNoGroup for a free consumer. What CommitAsync queued before is sent first.
func (c *Consumer) Commit(ctx context.Context, rs ...record.Record) error {
	offsets := make(map[record.TopicPartition]record.Committed, 1)
	for i := range rs {
		tp := record.TopicPartition{Topic: rs[i].Topic, Partition: rs[i].Partition}
		if co, ok := offsets[tp]; !ok || co.Offset <= rs[i].Offset {
			offsets[tp] = record.Committed{Offset: rs[i].Offset + 1, LeaderEpoch: rs[i].LeaderEpoch}
		}
	}
	return c.commitInOrder(ctx, offsets, true)
}

// CommitReturned commits everything handed out so far, also the record or batch in hand.
func (c *Consumer) CommitReturned(ctx context.Context) error {
	return c.commitInOrder(ctx, c.positions(), false)
}

func (c *Consumer) positions() map[record.TopicPartition]record.Committed {
	c.mu.Lock()
	defer c.mu.Unlock()
	offsets := map[record.TopicPartition]record.Committed{}
	for tp, p := range c.parts {
		if pos := p.d.position.Load(); pos >= 0 && c.ownsLocked(p) {
			offsets[tp] = record.Committed{Offset: pos, LeaderEpoch: p.d.epoch.Load()}
		}
	}
	return offsets
}

// commitInOrder is commit of the application's own: what CommitAsync has queued before goes first,
// so that the older offset does not come last and set the group back. In a callback of CommitAsync
// it does not wait: those behind come later, and where they were sent already they stand.
func (c *Consumer) commitInOrder(ctx context.Context, offsets map[record.TopicPartition]record.Committed, checked bool) error {
	if c.groups == nil || len(offsets) == 0 {
		return c.commit(ctx, offsets, checked)
	}
	behind, err := c.awaitQueued(ctx)
	if err != nil {
		return fmt.Errorf("consumer: commit: %w", err)
	}
	return c.commitBefore(ctx, offsets, checked, behind)
}

// CommitOffsets commits the given next offsets to read. Errors as for Commit: an offset below where
// this member began in a partition, or beyond what it was given, is of an earlier assignment and
// refused with ErrRebalanced. To move a group to other offsets, Seek there first, or see
// group.Coordinator.ResetOffsets.
func (c *Consumer) CommitOffsets(ctx context.Context, o record.Offsets) error {
	return c.commitInOrder(ctx, withEpochs(o), true)
}

// CommitMetadata is CommitOffsets with leader epochs and a string of the application's own for each
// partition.
func (c *Consumer) CommitMetadata(ctx context.Context, o map[record.TopicPartition]record.Committed) error {
	return c.commitInOrder(ctx, maps.Clone(o), true)
}

// Committed returns the group's offsets for the assigned partitions; those without one are missing.
func (c *Consumer) Committed(ctx context.Context) (record.Offsets, error) {
	if c.groups == nil {
		return nil, ErrNoGroup
	}
	if c.isClosed() {
		return nil, ErrClosed
	}
	got, err := c.groups.FetchOffsets(ctx, c.cfg.Group, c.Assignment())
	if err != nil {
		return nil, fmt.Errorf("consumer: committed offsets of %s: %w", c.cfg.Group, err)
	}
	o := record.Offsets{}
	for tp, co := range got {
		if co.Offset >= 0 {
			o[tp] = co.Offset
		}
	}
	return o, nil
}

func withEpochs(o record.Offsets) map[record.TopicPartition]record.Committed {
	out := make(map[record.TopicPartition]record.Committed, len(o))
	for tp, off := range o {
		out[tp] = record.Committed{Offset: off, LeaderEpoch: -1}
	}
	return out
}

// commitBeforeHandover commits what the next owner must not repeat, or (CommitBeforeDelivery) what
// was committed but never handed out. What CommitAsync has queued goes first: it is of partitions
// that are ours until they are given up.
func (c *Consumer) commitBeforeHandover(ctx context.Context, tps []record.TopicPartition) error {
	if _, err := c.awaitQueued(ctx); err != nil {
		return err
	}
	switch c.cfg.Commit {
	case CommitProcessed:
		return c.commitProcessed(ctx, tps)
	case CommitBeforeDelivery:
		return c.CommitReturned(ctx)
	}
	return nil
}

// commitProcessed commits what is processed and not committed yet of the given partitions. One such
// commit is made at a time: an older one that was slow must not overtake. Transform commits for
// itself.
func (c *Consumer) commitProcessed(ctx context.Context, tps []record.TopicPartition) error {
	select {
	case c.commits.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.commits.turn }()
	if c.commits.transforming.Load() {
		return nil
	}
	offsets := map[record.TopicPartition]record.Committed{}
	c.mu.Lock()
	for _, tp := range tps {
		p := c.parts[tp]
		if !c.ownsLocked(p) {
			continue
		}
		if done := p.d.processed.Load(); done > p.d.committed.Load() {
			offsets[tp] = record.Committed{Offset: done, LeaderEpoch: p.d.epoch.Load()}
		}
	}
	c.mu.Unlock()
	return c.commit(ctx, offsets, false)
}

// commitHanded commits the end of what a poll is about to hand out. If that fails nothing is handed
// out: it is fetched again.
func (c *Consumer) commitHanded(ctx context.Context) error {
	offsets := map[record.TopicPartition]record.Committed{}
	for _, h := range c.poller.handed {
		offsets[h.p.tp] = record.Committed{Offset: h.next, LeaderEpoch: h.d.epoch.Load()}
	}
	err := c.commit(ctx, offsets, false)
	if err == nil {
		return nil
	}
	for _, h := range c.poller.handed {
		h.d.undo(h.p, h.first)
	}
	c.poller.handed = c.poller.handed[:0]
	return err
}
