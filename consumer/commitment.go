package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

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
