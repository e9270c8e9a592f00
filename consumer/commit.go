package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
)

// Commit commits offset+1 of each record, the highest per partition, and blocks until that is
// durable. Without records it does nothing. Commits queued earlier by CommitAsync are sent first.
//
// Commit returns ErrRebalanced, and commits nothing, if a partition no longer belongs to this
// member, or was revoked and assigned again since the record was handed out. It returns ErrNoGroup
// for a free consumer.
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

// CommitReturned commits all records handed out so far, including the current record or batch.
//
// If a partition was lost since the last poll, and not all of its records are committed,
// CommitReturned commits the other partitions and returns ErrRebalanced.
func (c *Consumer) CommitReturned(ctx context.Context) error {
	offsets, lost := c.positions()
	if err := c.commitInOrder(ctx, offsets, false); err != nil {
		return err
	}
	return lost
}

// positions returns the offsets behind the records that were handed out. lost is the error for
// records of partitions that this member no longer owns.
func (c *Consumer) positions() (offsets map[record.TopicPartition]record.Committed, lost error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	offsets = map[record.TopicPartition]record.Committed{}
	for tp, p := range c.parts {
		pos := p.d.position.Load()
		switch {
		case pos < 0:
		case c.ownsLocked(p):
			offsets[tp] = record.Committed{Offset: pos, LeaderEpoch: p.d.epoch.Load()}
		case pos > max(p.d.begin.Load(), p.d.committed.Load()):
			lost = c.notOwnedLocked(tp)
		}
	}
	return offsets, lost
}

// commitInOrder commits offsets of the application. Commits queued earlier by CommitAsync are sent
// first, so that an older offset does not come last and move the group back. In a callback of
// CommitAsync it does not wait: later commits in the queue come later, and those already sent keep
// their effect.
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

// CommitOffsets commits the given offsets: for each partition the next offset to read. Errors are
// those of Commit. An offset below the one where this member began to read the partition, or beyond
// the records handed out, belongs to an earlier assignment: the error is ErrRebalanced. To move a
// group to other offsets, call Seek first, or use group.Coordinator.ResetOffsets.
func (c *Consumer) CommitOffsets(ctx context.Context, o record.Offsets) error {
	return c.commitInOrder(ctx, withEpochs(o), true)
}

// CommitMetadata is CommitOffsets with a leader epoch and a string of the application for each
// partition.
func (c *Consumer) CommitMetadata(ctx context.Context, o map[record.TopicPartition]record.Committed) error {
	return c.commitInOrder(ctx, maps.Clone(o), true)
}

// Committed returns the group's committed offsets of the assigned partitions. Partitions without
// one are left out.
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

// commitBeforeHandover commits processed offsets, so that the next owner does not repeat records.
// With CommitBeforeDelivery it commits the positions, so that the next owner reads records that
// were committed but never handed out. Commits queued by CommitAsync are sent first: their
// partitions are owned until they are given up.
func (c *Consumer) commitBeforeHandover(ctx context.Context, tps []record.TopicPartition) error {
	behind, err := c.awaitQueued(ctx)
	if err != nil {
		return err
	}
	switch c.cfg.Commit {
	case CommitProcessed:
		return c.commitProcessed(ctx, tps)
	case CommitBeforeDelivery:
		if err := c.takeTurn(ctx); err != nil {
			return err
		}
		defer c.releaseTurn()
		offsets, _ := c.positions()
		return c.commitBefore(ctx, offsets, false, behind)
	}
	return nil
}

// takeTurn waits until no other internal commit of the consumer is in progress, so that a slow
// older one cannot overtake. After success the caller calls releaseTurn.
func (c *Consumer) takeTurn(ctx context.Context) error {
	select {
	case c.commits.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Consumer) releaseTurn() { <-c.commits.turn }

// commitBeforeJoin tries once to commit processed offsets. It waits neither for the end of a
// rebalance, which the caller is about to join, nor for another commit, which may wait for one. If
// another commit is under way it does nothing: that one may be sent again after the join, with older
// offsets.
func (c *Consumer) commitBeforeJoin(ctx context.Context, tps []record.TopicPartition) {
	if c.cfg.Commit != CommitProcessed || len(tps) == 0 {
		return
	}
	select {
	case c.commits.turn <- struct{}{}:
	default:
		return
	}
	defer c.releaseTurn()
	c.mu.Lock()
	others := c.commits.underWay > 0 || c.commits.answered < c.commits.queued
	c.mu.Unlock()
	offsets := c.processedOffsets(tps)
	if others || c.commits.transforming.Load() || len(offsets) == 0 {
		return
	}
	cm, err := c.commitmentOf(offsets, false)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.HeartbeatInterval)
		defer cancel()
		left, m := c.unsettled([]*commitment{cm})
		if err = c.send(ctx, left, m); err == nil {
			err = cm.err
		}
	}
	c.noteCommit(err)
}

// noteCommit handles the outcome of a commit whose error no caller receives. A final error ends
// polling. Another one is logged when the next commit fails, too: the next one includes it.
func (c *Consumer) noteCommit(err error) {
	switch {
	case err == nil:
		c.commits.failing.Store(false)
	case retriable.Final(err):
		c.fail(fmt.Errorf("consumer: group %s: %w", c.cfg.Group, err))
	case errors.Is(err, ErrRebalanced), errors.Is(err, ErrClosed), errors.Is(err, context.Canceled), !c.commits.failing.Swap(true):
		c.cfg.Logger.Debug("commit failed, the next one includes it", "group", c.cfg.Group, "err", err)
	default:
		c.warnRepeated("commits fail, the next one includes their offsets", err)
	}
}

// processedOffsets returns the uncommitted processed offsets of the given partitions.
func (c *Consumer) processedOffsets(tps []record.TopicPartition) map[record.TopicPartition]record.Committed {
	offsets := map[record.TopicPartition]record.Committed{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range tps {
		p := c.parts[tp]
		if !c.ownsLocked(p) {
			continue
		}
		if done := p.d.processed.Load(); done > p.d.committed.Load() {
			offsets[tp] = record.Committed{Offset: done, LeaderEpoch: p.d.epoch.Load()}
		}
	}
	return offsets
}

// commitProcessed commits the uncommitted processed offsets of the given partitions, in its turn.
// During Transform it does nothing.
func (c *Consumer) commitProcessed(ctx context.Context, tps []record.TopicPartition) error {
	if err := c.takeTurn(ctx); err != nil {
		return err
	}
	defer c.releaseTurn()
	if c.commits.transforming.Load() {
		return nil
	}
	return c.commit(ctx, c.processedOffsets(tps), false)
}

// commitHanded commits the end of the records that a poll is about to hand out. If that fails, they
// are not handed out but fetched again.
func (c *Consumer) commitHanded(ctx context.Context) error {
	offsets := map[record.TopicPartition]record.Committed{}
	for _, h := range c.poller.handed {
		offsets[h.p.tp] = record.Committed{Offset: h.next, LeaderEpoch: h.d.epoch.Load()}
	}
	err := c.takeTurn(ctx)
	if err == nil {
		err = c.commit(ctx, offsets, false)
		c.releaseTurn()
	}
	if err == nil {
		return nil
	}
	if retriable.Final(err) {
		c.fail(err)
	}
	for _, h := range c.poller.handed {
		h.d.undo(h.p, h.first)
	}
	c.poller.handed = c.poller.handed[:0]
	return err
}
