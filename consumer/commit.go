package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// maxQueuedCommits bounds the commits that CommitAsync has waiting.
const maxQueuedCommits = 10_000

// commitQueue holds the commits of CommitAsync that were not sent yet, in order. Guarded by Consumer.mu, but for ready.
type commitQueue struct {
	waiting []queuedCommit
	ready   chan struct{} // tells the committer; capacity 1
}

type queuedCommit struct {
	offsets record.Offsets
	done    func(record.Offsets, error)
}

// Commit commits offset+1 of each record, the highest of each partition; of none: nothing. It blocks until that is durable.
// It returns ErrRebalanced if a partition is not this member's any more; nothing is committed then. ErrNoGroup for a free consumer.
func (c *Consumer) Commit(ctx context.Context, rs ...record.Record) error {
	if len(rs) == 0 {
		return nil
	}
	offsets := make(map[record.TopicPartition]record.Committed, 1)
	for i := range rs {
		tp := record.TopicPartition{Topic: rs[i].Topic, Partition: rs[i].Partition}
		if co, ok := offsets[tp]; !ok || co.Offset <= rs[i].Offset {
			offsets[tp] = record.Committed{Offset: rs[i].Offset + 1, LeaderEpoch: rs[i].LeaderEpoch}
		}
	}
	return c.commit(ctx, offsets)
}

// CommitReturned commits everything handed out so far, also the record or batch in hand.
func (c *Consumer) CommitReturned(ctx context.Context) error {
	c.mu.Lock()
	offsets := map[record.TopicPartition]record.Committed{}
	for tp, p := range c.parts {
		if pos := p.position.Load(); pos >= 0 && !p.lost {
			offsets[tp] = record.Committed{Offset: pos, LeaderEpoch: p.lastEpoch.Load()}
		}
	}
	c.mu.Unlock()
	return c.commit(ctx, offsets)
}

// CommitOffsets commits the given next offsets to read. Errors as for Commit.
func (c *Consumer) CommitOffsets(ctx context.Context, o record.Offsets) error {
	return c.commit(ctx, withEpochs(o))
}

// CommitMetadata is CommitOffsets with leader epochs and a string of the application's own for each partition.
func (c *Consumer) CommitMetadata(ctx context.Context, o map[record.TopicPartition]record.Committed) error {
	return c.commit(ctx, maps.Clone(o))
}

// CommitAsync queues a commit and returns at once; commits are sent in order. done, if not nil, runs exactly once, on a goroutine of the
// consumer, and must not block. If 10,000 wait already it gets ErrCommitQueueFull; after Close, ErrClosed. o is borrowed until then.
func (c *Consumer) CommitAsync(o record.Offsets, done func(record.Offsets, error)) {
	if done == nil {
		done = func(record.Offsets, error) {}
	}
	c.mu.Lock()
	var refused error
	switch {
	case c.groups == nil:
		refused = ErrNoGroup
	case c.closing:
		refused = ErrClosed
	case len(c.commits.waiting) >= maxQueuedCommits:
		refused = ErrCommitQueueFull
	default:
		c.commits.waiting = append(c.commits.waiting, queuedCommit{o, done})
	}
	c.mu.Unlock()
	if refused != nil {
		done(o, refused)
		return
	}
	select {
	case c.commits.ready <- struct{}{}:
	default:
	}
}

// Committed returns the group's offsets for the assigned partitions; those without one are missing.
func (c *Consumer) Committed(ctx context.Context) (record.Offsets, error) {
	if c.groups == nil {
		return nil, ErrNoGroup
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

// commit sends offsets to the group, all or none. While a rebalance is under way it waits for its end: what is still ours then is committed.
func (c *Consumer) commit(ctx context.Context, offsets map[record.TopicPartition]record.Committed) error {
	if c.groups == nil {
		return ErrNoGroup
	}
	if len(offsets) == 0 {
		return nil
	}
	for tp, co := range offsets {
		if co.Offset < 0 {
			return fmt.Errorf("consumer: commit %s-%d: negative offset %d", tp.Topic, tp.Partition, co.Offset)
		}
	}
	for {
		m, changed, err := c.mayCommit(offsets)
		if err != nil {
			return err
		}
		per, err := c.groups.CommitOffsets(ctx, group.CommitRequest{
			Group: c.cfg.Group, MemberID: m.id, InstanceID: c.cfg.InstanceID, Generation: m.generation, Offsets: offsets,
		})
		if err == nil {
			err = firstError(per)
		}
		switch {
		case err == nil:
			c.noteCommitted(offsets)
			return nil
		case errors.Is(err, group.ErrRebalanceInProgress), errors.Is(err, group.ErrIllegalGeneration) && c.generation() != m.generation:
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("consumer: commit: %w", ctx.Err())
			}
		case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrIllegalGeneration), errors.Is(err, group.ErrFencedInstance):
			return fmt.Errorf("consumer: commit: %w: %w", ErrRebalanced, err)
		default:
			return fmt.Errorf("consumer: commit: %w", err)
		}
	}
}

// mayCommit returns the membership to commit under, if all partitions are ours. changed is closed when that membership changes.
func (c *Consumer) mayCommit(offsets map[record.TopicPartition]record.Committed) (m memberState, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return m, nil, ErrClosed
	default:
	}
	for tp := range offsets {
		if p := c.parts[tp]; p == nil || p.lost {
			err = fmt.Errorf("consumer: commit %s-%d: %w", tp.Topic, tp.Partition, ErrRebalanced)
			if c.member.pollExceeded {
				err = fmt.Errorf("%w: %w", err, ErrPollTimeout)
			}
			return m, nil, err
		}
	}
	return c.member.memberState, c.member.changed, nil
}

func (c *Consumer) noteCommitted(offsets map[record.TopicPartition]record.Committed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Commits++
	for tp, co := range offsets {
		if p := c.parts[tp]; p != nil {
			p.committed = co.Offset
		}
	}
}

func firstError(per map[record.TopicPartition]error) error {
	for tp, err := range per {
		if err != nil {
			return fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, err)
		}
	}
	return nil
}

// commitBeforeHandover commits what the next owner must not repeat, or (CommitBeforeDelivery) what was committed but never handed out.
func (c *Consumer) commitBeforeHandover(ctx context.Context, tps []record.TopicPartition) error {
	switch c.cfg.Commit {
	case CommitProcessed:
		return c.commitProcessed(ctx, tps)
	case CommitBeforeDelivery:
		return c.CommitReturned(ctx)
	}
	return nil
}

// commitProcessed commits what is processed and not committed yet of the given partitions.
func (c *Consumer) commitProcessed(ctx context.Context, tps []record.TopicPartition) error {
	offsets := map[record.TopicPartition]record.Committed{}
	c.mu.Lock()
	for _, tp := range tps {
		p := c.parts[tp]
		if p == nil || p.lost {
			continue
		}
		if done := p.processed.Load(); done >= 0 && done != p.committed {
			offsets[tp] = record.Committed{Offset: done, LeaderEpoch: p.lastEpoch.Load()}
		}
	}
	c.mu.Unlock()
	return c.commit(ctx, offsets)
}

// commitHanded commits the end of what a poll is about to hand out. If that fails nothing is handed out: it is fetched again.
func (c *Consumer) commitHanded(ctx context.Context) error {
	offsets := map[record.TopicPartition]record.Committed{}
	c.mu.Lock()
	for _, h := range c.handed {
		offsets[h.p.tp] = record.Committed{Offset: h.end, LeaderEpoch: h.p.lastEpoch.Load()}
	}
	c.mu.Unlock()
	err := c.commit(ctx, offsets)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handed {
		if h.p.gen.Load() == h.gen {
			h.p.position.Store(h.first)
			h.p.chunk = chunk{}
		}
	}
	c.handed = c.handed[:0]
	return err
}

// runCommitter sends what CommitAsync queued, and with CommitProcessed what is processed, every CommitInterval.
func (c *Consumer) runCommitter(ctx context.Context) {
	var tick <-chan time.Time
	if c.cfg.Commit == CommitProcessed {
		t := time.NewTicker(c.cfg.CommitInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			if err := c.commitProcessed(ctx, c.Assignment()); err != nil && ctx.Err() == nil {
				c.cfg.Logger.Debug("periodic commit failed, the next one includes it", "group", c.cfg.Group, "err", err)
			}
		case <-c.commits.ready:
			c.drainCommits(ctx)
		}
	}
}

// drainCommits sends everything that waits, in order.
func (c *Consumer) drainCommits(ctx context.Context) {
	for {
		c.mu.Lock()
		if len(c.commits.waiting) == 0 || ctx.Err() != nil {
			c.mu.Unlock()
			return
		}
		q := c.commits.waiting[0]
		c.commits.waiting = c.commits.waiting[1:]
		c.mu.Unlock()
		q.done(q.offsets, c.commit(ctx, withEpochs(q.offsets)))
	}
}

// failCommits answers what still waits with err.
func (c *Consumer) failCommits(err error) {
	c.mu.Lock()
	waiting := c.commits.waiting
	c.commits.waiting = nil
	c.mu.Unlock()
	for _, q := range waiting {
		q.done(q.offsets, err)
	}
}
