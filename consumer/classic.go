package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// A classicMember implements the classic protocol: it joins each generation of the group, and one
// of the members, the leader, assigns the partitions.
type classicMember struct {
	*membership
	news       chan struct{}           // signals that a heartbeat may return a change; capacity 1
	parts      []record.TopicPartition // assigned by the group and not given up
	last       lastAssignment          // partitions that an eager member gave up to join again
	subscribed []string                // topics that the last join named
	eager      bool                    // some assignor cannot hand over incrementally
	outrun     bool                    // the last sync came too late for its generation
	// partition counts of topics when this member became leader; nil: not the leader
	leading map[string]int32
	// true if the group accepted this returning static member with its old assignment, which may no
	// longer fit
	unsure   bool
	reason   string           // of the next join, for the coordinator; "": none
	reviewed map[string]int32 // partition counts of topics when the assignment was found to fit; nil: it was not in doubt
}

// lastAssignment is the assignment of a member before it gave up all partitions to join again.
// Sticky eager assignors and seeks depend on it.
type lastAssignment struct {
	parts      []record.TopicPartition
	generation int32
}

func newClassicMember(m *membership) *classicMember {
	return &classicMember{membership: m, news: make(chan struct{}, 1), eager: !assignor.AllCooperative(m.c.cfg.Assignors), last: lastAssignment{generation: -1}}
}

// generation implements groupProtocol. It runs one generation: prepare, join, sync, hand over, and
// heartbeats until the generation ends.
func (m *classicMember) generation(ctx context.Context) error {
	if b, ok := m.c.groups.(Notifier); ok {
		defer b.NotifyRebalanced(m.c.cfg.Group, m.news)()
	}
	if err := m.prepare(ctx); err != nil {
		return err
	}
	// Between join and sync the group rejects commits. If the member crashes or is closed in that
	// time, processed records of the partitions it keeps would be repeated.
	m.c.commitBeforeJoin(ctx, m.parts)
	join, err := m.join(ctx)
	if err != nil {
		return err
	}
	parts, err := m.sync(ctx, join)
	if err != nil {
		return err
	}
	m.c.mu.Lock()
	m.c.stats.Rebalances++
	m.c.member.pollExceeded = false
	m.c.mu.Unlock()
	m.c.setMember(join.MemberID, join.Generation)
	m.c.dropSeeks(m.last, lastAssignment{parts, join.Generation})
	m.last = lastAssignment{parts, join.Generation}
	if m.unsure && slices.ContainsFunc(parts, func(tp record.TopicPartition) bool { return !slices.Contains(m.subscribed, tp.Topic) }) {
		return errRejoin // without having read from the new assignment
	}
	again, err := m.handOver(ctx, parts)
	if err != nil {
		return err
	}
	if again {
		return errRejoin
	}
	return m.heartbeats(ctx, nil)
}

// prepare gives up the partitions that the member must not hold while it joins: all of them if it
// is eager, else those of topics that it no longer subscribes to.
func (m *classicMember) prepare(ctx context.Context) error {
	topics, err := m.c.subscribed(ctx)
	if err != nil {
		return fmt.Errorf("subscription: %w", err)
	}
	m.subscribed = topics
	keep := slices.DeleteFunc(slices.Clone(m.parts), func(tp record.TopicPartition) bool {
		return m.eager || !slices.Contains(topics, tp.Topic)
	})
	if len(keep) == len(m.parts) {
		return nil
	}
	return m.adopt(ctx, keep)
}

// handOver makes the new assignment the target. again is true if other members wait for partitions
// that were given up.
func (m *classicMember) handOver(ctx context.Context, parts []record.TopicPartition) (again bool, err error) {
	slices.SortFunc(parts, compareTP)
	again = !m.eager && slices.ContainsFunc(m.parts, func(tp record.TopicPartition) bool { return !slices.Contains(parts, tp) })
	if again {
		return true, m.adopt(ctx, parts)
	}
	_, err = m.retarget(ctx, parts)
	return false, err
}

// retarget makes parts the target of the polling goroutine, and stores them once that has worked.
// If it fails nothing has changed: the old partitions are still read, so the next join has to name
// them, or the group would also assign them to other members.
func (m *classicMember) retarget(ctx context.Context, parts []record.TopicPartition) (adopted <-chan struct{}, err error) {
	if adopted, err = m.c.retarget(ctx, m.number, wanted{names: parts}); err == nil {
		m.parts = parts
	}
	return adopted, err
}

// adopt makes parts the target and sends heartbeats until the polling goroutine has adopted it.
func (m *classicMember) adopt(ctx context.Context, parts []record.TopicPartition) error {
	adopted, err := m.retarget(ctx, parts)
	if err == nil {
		err = m.heartbeats(ctx, adopted)
	}
	return err
}

// disowned implements groupProtocol.
func (m *classicMember) disowned() {
	m.parts, m.leading = nil, nil
	m.last = lastAssignment{generation: -1}
}

// leave implements groupProtocol. A static member does not leave; its session times out.
func (m *classicMember) leave(ctx context.Context, id, reason string) error {
	c := m.c
	if c.cfg.InstanceID != "" {
		return nil
	}
	per, err := c.groups.Leave(ctx, group.LeaveRequest{Group: c.cfg.Group, Members: []group.LeaveMember{{MemberID: id, Reason: reason}}})
	err = errors.Join(append(per, err)...)
	if errors.Is(err, group.ErrUnknownMember) { // removed earlier by another client or the coordinator
		return nil
	}
	return err
}

// reopenCommits implements groupProtocol. The membership goroutine has ended, in a state in which
// the group rejects commits:
//
//   - The response to a Join was lost, and the group has a newer generation. The same Join returns
//     that generation immediately, since it changes nothing.
//   - Between join and sync. The sync of the group's leader, perhaps this member, may take long. A
//     Join with another subscription makes the group rebalance, and until the rebalance has
//     completed, commits are accepted again.
//
// It is retried until a commit succeeds, at most for a heartbeat interval.
func (m *classicMember) reopenCommits(ctx context.Context) (stop func()) {
	c := m.c
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !c.learnGeneration(ctx) {
			return
		}
		s := c.state()
		join, err := c.groups.Join(ctx, c.joinRequest(s, nil, nil))
		if err != nil {
			return
		}
		c.setMember(join.MemberID, join.Generation)
		sync := c.syncRequest(join)
		if join.Leader == join.MemberID {
			sync.Assignments = map[string][]byte{}
		}
		if _, err := c.groups.Sync(ctx, sync); err != nil {
			c.cfg.Logger.Debug("sync while closing failed", "group", c.cfg.Group, "err", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// learnGeneration repeats a Join whose response was lost. It returns false if the held partitions
// may have another owner by now.
func (c *Consumer) learnGeneration(ctx context.Context) bool {
	c.mu.Lock()
	lost, known := c.member.unanswered, c.member.memberState
	c.mu.Unlock()
	if lost == nil {
		return true
	}
	join, err := c.groups.Join(ctx, *lost)
	if err != nil || known.missed(join.Generation) {
		return false
	}
	c.setMember(join.MemberID, join.Generation)
	return true
}
