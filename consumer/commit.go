package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
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
// so that the older offset does not come last and set the group back.
func (c *Consumer) commitInOrder(ctx context.Context, offsets map[record.TopicPartition]record.Committed, checked bool) error {
	if c.groups != nil && len(offsets) > 0 {
		if err := c.awaitQueued(ctx); err != nil {
			return fmt.Errorf("consumer: commit: %w", err)
		}
	}
	return c.commit(ctx, offsets, checked)
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

// A commitment is offsets with what they belong to: the partitions as they were assigned when the
// commit was asked for, and the present delivery of each.
type commitment struct {
	offsets    map[record.TopicPartition]record.Committed
	parts      map[record.TopicPartition]*part
	deliveries map[record.TopicPartition]*delivery
	ids        map[string][16]byte
}

// commit sends offsets to the group, all or none. While a rebalance is under way it waits for its
// end: what is still ours then is committed. checked says that the offsets are the application's,
// and may be of an earlier assignment.
func (c *Consumer) commit(ctx context.Context, offsets map[record.TopicPartition]record.Committed, checked bool) error {
	if c.groups == nil {
		return ErrNoGroup
	}
	if c.isClosed() {
		return ErrClosed
	}
	if len(offsets) == 0 {
		return nil
	}
	for tp, co := range offsets {
		if co.Offset < 0 {
			return fmt.Errorf("consumer: commit %s-%d: negative offset %d", tp.Topic, tp.Partition, co.Offset)
		}
	}
	cm, err := c.commitmentOf(offsets, checked)
	if err != nil {
		return err
	}
	for {
		m, changed, err := c.mayCommit(cm)
		if err != nil {
			return err
		}
		err = c.send(ctx, cm, m)
		switch {
		case err == nil:
			c.noteCommitted(cm)
			return nil
		case errors.Is(err, group.ErrRebalanceInProgress), errors.Is(err, group.ErrIllegalGeneration) && c.maybeBehind(m):
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return fmt.Errorf("consumer: commit: %w", ctx.Err())
			case <-c.memberEnded:
			}
			err = c.commitWhileClosing(ctx, func() error {
				m, _, err := c.mayCommit(cm)
				if err == nil {
					err = c.send(ctx, cm, m)
				}
				return err
			})
			if err == nil {
				c.noteCommitted(cm)
				return nil
			}
		}
		switch {
		case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrIllegalGeneration), errors.Is(err, group.ErrFencedInstance),
			errors.Is(err, group.ErrUnknownTopicOrPartition): // the topic was deleted
			return fmt.Errorf("consumer: commit: %w: %w", ErrRebalanced, err)
		}
		return fmt.Errorf("consumer: commit: %w", err)
	}
}

// maybeBehind reports whether the group may be in a later generation than m with this member in it:
// an answer to a Join came after the commit was sent, or is outstanding.
func (c *Consumer) maybeBehind(m memberState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member.generation != m.generation || c.member.unanswered != nil
}

// send makes one attempt.
func (c *Consumer) send(ctx context.Context, cm commitment, m memberState) error {
	per, err := c.groups.CommitOffsets(ctx, group.CommitRequest{
		Group: c.cfg.Group, MemberID: m.id, InstanceID: c.cfg.InstanceID, Generation: m.generation, Offsets: cm.offsets, TopicIDs: cm.ids,
	})
	if err == nil {
		err = firstError(per)
	}
	return err
}

// commitmentOf ties offsets to the assignment as it is now. It returns ErrRebalanced for what is
// not ours, or was not handed out since the partition was assigned.
func (c *Consumer) commitmentOf(offsets map[record.TopicPartition]record.Committed, checked bool) (commitment, error) {
	cm := commitment{
		offsets: offsets, parts: make(map[record.TopicPartition]*part, len(offsets)),
		deliveries: make(map[record.TopicPartition]*delivery, len(offsets)), ids: make(map[string][16]byte, 1),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp, co := range offsets {
		p := c.parts[tp]
		if !c.ownsLocked(p) {
			return cm, c.notOursLocked(tp)
		}
		if checked && !p.mayCommit(co.Offset) {
			return cm, fmt.Errorf("consumer: commit %s-%d: offset %d was not reached since the partition was assigned: %w", tp.Topic, tp.Partition, co.Offset, ErrRebalanced)
		}
		cm.parts[tp], cm.deliveries[tp] = p, p.d
		if p.id != (topic.ID{}) {
			cm.ids[tp.Topic] = p.id
		}
	}
	return cm, nil
}

// mayCommit returns the membership to commit under, if all partitions are still ours. changed is
// closed when that membership changes.
func (c *Consumer) mayCommit(cm commitment) (m memberState, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return m, nil, ErrClosed
	}
	for tp, p := range cm.parts {
		if !c.ownsLocked(p) {
			return m, nil, c.notOursLocked(tp)
		}
	}
	return c.member.memberState, c.member.changed, nil
}

func (c *Consumer) notOursLocked(tp record.TopicPartition) error {
	if c.isClosed() {
		return ErrClosed
	}
	err := fmt.Errorf("consumer: commit %s-%d: %w", tp.Topic, tp.Partition, ErrRebalanced)
	if c.member.pollExceeded {
		err = fmt.Errorf("%w: %w", err, ErrPollTimeout)
	}
	return err
}

func (c *Consumer) noteCommitted(cm commitment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Commits++
	for tp, d := range cm.deliveries {
		d.committed.Store(cm.offsets[tp].Offset)
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

// commitBeforeHandover commits what the next owner must not repeat, or (CommitBeforeDelivery) what
// was committed but never handed out.
func (c *Consumer) commitBeforeHandover(ctx context.Context, tps []record.TopicPartition) error {
	switch c.cfg.Commit {
	case CommitProcessed:
		return c.commitProcessed(ctx, tps)
	case CommitBeforeDelivery:
		return c.CommitReturned(ctx)
	}
	return nil
}

// commitProcessed commits what is processed and not committed yet of the given partitions. One such
// commit is made at a time: an older one that was slow must not overtake.
func (c *Consumer) commitProcessed(ctx context.Context, tps []record.TopicPartition) error {
	select {
	case c.commits.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.commits.turn }()
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
