package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A commitment is one requested commit: offsets, with the assignment that they belong to.
type commitment struct {
	offsets map[record.TopicPartition]record.Committed
	// partitions and their deliveries when the offsets were bound to the assignment
	parts      map[record.TopicPartition]*part
	deliveries map[record.TopicPartition]*delivery

	settled bool
	err     error // outcome, once settled
}

func (cm *commitment) settle(err error) { cm.settled, cm.err = true, err }

// commit sends offsets to the group, all or none. During a rebalance it waits for its end, and then
// commits the partitions that are still owned. checked is true for offsets of the application,
// which may belong to an earlier assignment.
func (c *Consumer) commit(ctx context.Context, offsets map[record.TopicPartition]record.Committed, checked bool) error {
	return c.commitBefore(ctx, offsets, checked, nil)
}

// commitBefore is commit without the partitions that commitments behind it have already committed.
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

// commitTogether settles several commitments with one request, unless a retry is needed. Of a
// partition in several commitments, the last offset is sent. Each has its own outcome: an error of
// one, or of its partitions, does not affect the others.
func (c *Consumer) commitTogether(ctx context.Context, cms []*commitment) {
	c.countUnderWay(1)
	defer c.countUnderWay(-1)
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
				return c.send(ctx, left, m)
			}))
		}
	}
}

func (c *Consumer) countUnderWay(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits.underWay += n
}

// settleAll settles the commitments that have no outcome yet.
func settleAll(cms []*commitment, err error) {
	for _, cm := range cms {
		if !cm.settled {
			cm.settle(commitError(err))
		}
	}
}

// commitError returns the error for a commit that the group rejected. If another member may own the
// partitions, or the topic was deleted, it is ErrRebalanced.
func commitError(err error) error {
	switch {
	case retriable.Final(err):
	case errors.Is(err, group.ErrUnknownMember), isOldGeneration(err), errors.Is(err, group.ErrFencedInstance), errors.Is(err, group.ErrUnknownTopicOrPartition):
		return fmt.Errorf("consumer: commit: %w: %w", ErrRebalanced, err)
	}
	return fmt.Errorf("consumer: commit: %w", err)
}

// isOldGeneration reports whether a commit was rejected because of its generation, or member epoch.
func isOldGeneration(err error) bool {
	return errors.Is(err, group.ErrIllegalGeneration) || errors.Is(err, group.ErrStaleMemberEpoch)
}

// committer is the membership that a commit is sent under.
type committer struct {
	memberState
	changed <-chan struct{} // closed when it changes
	// the membership goroutine has ended: Shutdown requests the present generation, so an old
	// generation is not final yet
	ended bool
}

// unsettled returns the commitments still to be sent, and the membership to send them under. It
// settles those whose partitions are no longer owned.
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
	select {
	case <-c.memberEnded:
		m.ended = true
	default:
	}
	m.memberState, m.changed = c.member.memberState, c.member.changed
	return left, m
}

// send makes one attempt, and settles the commitments that the group has accepted or rejected. The
// error is that of commitments that must wait for the end of a rebalance or, since no later commit
// includes the last one, of a transient failure.
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
		case retriable.Final(err):
			cm.settle(commitError(err))
		case errors.Is(err, group.ErrRebalanceInProgress), isOldGeneration(err) && c.maybeBehindLocked(m):
			wait = err
		case m.ended && passes(err):
			wait = err
		default:
			cm.settle(commitError(err))
		}
	}
	return wait
}

// commitRequest merges commitments: later offsets replace earlier ones.
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
// in it: a Join completed after the commit was sent, or is outstanding.
func (c *Consumer) maybeBehindLocked(m committer) bool {
	return m.ended || c.member.generation != m.generation || c.member.unanswered != nil
}

// commitmentOf binds offsets to the present assignment. It returns ErrRebalanced for partitions
// that are not owned, and for offsets that were not handed out since the assignment.
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

// notOursLocked returns the reason why cm cannot be committed now; nil: it can.
func (c *Consumer) notOursLocked(cm *commitment) error {
	if c.isClosed() {
		return ErrClosed
	}
	for tp, p := range cm.parts {
		if !c.ownsLocked(p) {
			return c.notOwnedLocked(tp)
		}
	}
	return nil
}

// notOwnedLocked returns the error for a commit of a partition that this member does not own.
func (c *Consumer) notOwnedLocked(tp record.TopicPartition) error {
	err := fmt.Errorf("consumer: commit %s-%d: %w", tp.Topic, tp.Partition, ErrRebalanced)
	if c.member.pollExceeded {
		err = fmt.Errorf("%w: %w", err, ErrPollTimeout)
	}
	return err
}

func (c *Consumer) noteCommittedLocked(cm *commitment) {
	c.stats.Commits++
	for tp, co := range cm.offsets {
		cm.deliveries[tp].committed.Store(co.Offset)
	}
}

// without removes the partitions that others have committed.
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
