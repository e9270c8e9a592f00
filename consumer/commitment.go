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

// A commitment is one commit that was asked for: offsets, with what they belong to.
type commitment struct {
	offsets map[record.TopicPartition]record.Committed
	// as they were assigned when the offsets were tied to them, with the delivery of that moment
	parts      map[record.TopicPartition]*part
	deliveries map[record.TopicPartition]*delivery

	settled bool
	err     error // once settled
}

func (cm *commitment) settle(err error) { cm.settled, cm.err = true, err }

// commit sends offsets to the group, all or none. While a rebalance is under way it waits for its
// end: what is still ours then is committed. checked says that the offsets are the application's,
// and may be of an earlier assignment.
func (c *Consumer) commit(ctx context.Context, offsets map[record.TopicPartition]record.Committed, checked bool) error {
	return c.commitBefore(ctx, offsets, checked, nil)
}

// commitBefore is commit, but for partitions that commitments behind it have committed already.
func (c *Consumer) commitBefore(ctx context.Context, offsets map[record.TopicPartition]record.Committed, checked bool, behind []*commitment) error {
	if c.groups == nil {
		return ErrNoGroup
	}
	cm, err := c.commitmentOf(offsets, checked)
	if err != nil {
		return err
	}
	cm.without(behind)
	c.commitTogether(ctx, []*commitment{cm})
	return cm.err
}

// commitTogether settles commitments by one commit, unless the group has to be asked again. Of a
// partition that several have, the last one's offset is sent. Each has its own outcome: what is
// wrong with one of them, or becomes of its partitions, leaves the others alone.
func (c *Consumer) commitTogether(ctx context.Context, cms []*commitment) {
	for {
		left, m := c.unsettled(cms)
		if c.send(ctx, left, m) == nil {
			return
		}
		select {
		case <-m.changed:
		case <-ctx.Done():
			settleAll(left, ctx.Err())
		case <-c.memberEnded:
			settleAll(left, c.commitWhileClosing(ctx, func() error {
				left, m := c.unsettled(left)
				m.ended = true
				return c.send(ctx, left, m)
			}))
		}
	}
}

// settleAll settles those that are not.
func settleAll(cms []*commitment, err error) {
	for _, cm := range cms {
		if !cm.settled {
			cm.settle(commitError(err))
		}
	}
}

// commitError is the error of a commit that the group refused. That somebody else has the
// partitions by now, or the topic is gone, is ErrRebalanced.
func commitError(err error) error {
	switch {
	case errors.Is(err, group.ErrUnknownMember), isOldGeneration(err), errors.Is(err, group.ErrFencedInstance), errors.Is(err, group.ErrUnknownTopicOrPartition):
		return fmt.Errorf("consumer: commit: %w: %w", ErrRebalanced, err)
	}
	return fmt.Errorf("consumer: commit: %w", err)
}

// isOldGeneration reports whether a commit was refused for its generation, or member epoch.
func isOldGeneration(err error) bool {
	return errors.Is(err, group.ErrIllegalGeneration) || errors.Is(err, group.ErrStaleMemberEpoch)
}

// committer is the membership that a commit is sent under.
type committer struct {
	memberState
	changed <-chan struct{} // closed when it changes
	// the membership goroutine has ended: who closes the consumer asks for the present generation,
	// so a former one is no refusal yet
	ended bool
}

// unsettled returns what is still to be sent, and the membership to send it under. What is not ours
// any more is settled.
func (c *Consumer) unsettled(cms []*commitment) (left []*commitment, m committer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cm := range cms {
		if cm.settled {
			continue
		}
		if err := c.notOursLocked(cm); err != nil {
			cm.settle(err)
			continue
		}
		left = append(left, cm)
	}
	return left, committer{memberState: c.member.memberState, changed: c.member.changed}
}

// send makes one attempt, and settles what the group has answered. The error is of what has to wait
// for the end of a rebalance.
func (c *Consumer) send(ctx context.Context, cms []*commitment, m committer) (wait error) {
	if len(cms) == 0 {
		return nil
	}
	per, err := c.groups.CommitOffsets(ctx, c.commitRequest(cms, m))
	if len(cms) > 1 && errors.Is(err, group.ErrTooLarge) { // nothing is stored
		for _, cm := range cms {
			if err := c.send(ctx, []*commitment{cm}, m); err != nil {
				wait = err
			}
		}
		return wait
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cm := range cms {
		err := err
		if err == nil {
			err = cm.firstError(per)
		}
		switch {
		case err == nil:
			c.noteCommittedLocked(cm)
			cm.settle(nil)
		case errors.Is(err, group.ErrRebalanceInProgress), isOldGeneration(err) && c.maybeBehindLocked(m):
			wait = err
		default:
			cm.settle(commitError(err))
		}
	}
	return wait
}

// commitRequest merges commitments: the later ones win.
func (c *Consumer) commitRequest(cms []*commitment, m committer) group.CommitRequest {
	offsets, ids := cms[0].offsets, make(map[string][16]byte, 1)
	if len(cms) > 1 {
		offsets = maps.Clone(offsets)
	}
	for i, cm := range cms {
		if i > 0 {
			maps.Copy(offsets, cm.offsets)
		}
		for tp, p := range cm.parts {
			if p.id != (topic.ID{}) {
				ids[tp.Topic] = p.id
			}
		}
	}
	return group.CommitRequest{
		Group: c.cfg.Group, MemberID: m.id, InstanceID: c.cfg.InstanceID, Generation: m.generation, Offsets: offsets, TopicIDs: ids,
	}
}

// maybeBehindLocked reports whether the group may be in a later generation than m with this member
// in it: an answer to a Join came after the commit was sent, or is outstanding.
func (c *Consumer) maybeBehindLocked(m committer) bool {
	return m.ended || c.member.generation != m.generation || c.member.unanswered != nil
}

// commitmentOf ties offsets to the assignment as it is now. It returns ErrRebalanced for what is
// not ours, or was not handed out since the partition was assigned.
func (c *Consumer) commitmentOf(offsets map[record.TopicPartition]record.Committed, checked bool) (*commitment, error) {
	for tp, co := range offsets {
		if co.Offset < 0 {
			return nil, fmt.Errorf("consumer: commit %s-%d: negative offset %d", tp.Topic, tp.Partition, co.Offset)
		}
	}
	cm := &commitment{
		offsets: offsets, parts: make(map[record.TopicPartition]*part, len(offsets)), deliveries: make(map[record.TopicPartition]*delivery, len(offsets)),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp := range offsets {
		cm.parts[tp] = c.parts[tp]
	}
	if err := c.notOursLocked(cm); err != nil {
		return nil, err
	}
	for tp, co := range offsets {
		p := cm.parts[tp]
		if checked && !p.mayCommit(co.Offset) {
			return nil, fmt.Errorf("consumer: commit %s-%d: offset %d was not reached since the partition was assigned: %w", tp.Topic, tp.Partition, co.Offset, ErrRebalanced)
		}
		cm.deliveries[tp] = p.d
	}
	cm.settled = len(offsets) == 0
	return cm, nil
}

// notOursLocked returns why cm cannot be committed now.
func (c *Consumer) notOursLocked(cm *commitment) error {
	if c.isClosed() {
		return ErrClosed
	}
	for tp, p := range cm.parts {
		if c.ownsLocked(p) {
			continue
		}
		err := fmt.Errorf("consumer: commit %s-%d: %w", tp.Topic, tp.Partition, ErrRebalanced)
		if c.member.pollExceeded {
			err = fmt.Errorf("%w: %w", err, ErrPollTimeout)
		}
		return err
	}
	return nil
}

func (c *Consumer) noteCommittedLocked(cm *commitment) {
	c.stats.Commits++
	for tp, co := range cm.offsets {
		cm.deliveries[tp].committed.Store(co.Offset)
	}
}

// without leaves out the partitions of others that were committed.
func (cm *commitment) without(others []*commitment) {
	for _, other := range others {
		if other.err != nil {
			continue
		}
		for tp := range other.offsets {
			delete(cm.offsets, tp)
			delete(cm.parts, tp)
		}
	}
	cm.settled = len(cm.offsets) == 0
}

func (cm *commitment) firstError(per map[record.TopicPartition]error) error {
	for tp := range cm.offsets {
		if err := per[tp]; err != nil {
			return fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, err)
		}
	}
	return nil
}
