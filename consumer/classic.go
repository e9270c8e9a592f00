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

// A classicMember speaks the classic protocol: it joins each generation of the group, and one of
// the members, the leader, shares the partitions out.
type classicMember struct {
	*membership
	parts      []record.TopicPartition // assigned by the group and not given up
	last       lastAssignment          // what an eager member gave up to join again
	subscribed []string                // topics that the last join named
	eager      bool                    // some assignor cannot hand over incrementally
	outrun     bool                    // the last sync came too late for its generation
	// partitions per topic as they were when this member began to lead; nil: not the leader
	leading map[string]int32
	// unsure: the group took this static member back with the assignment that it had, which may not
	// fit what there is now
	unsure   bool
	reason   string           // of the next join, for the coordinator; "": none
	reviewed map[string]int32 // partitions per topic when it was found to fit; nil: it was not unsure
}

// lastAssignment is what a member had before it gave everything up to join again: eager assignors
// that are sticky want to know it, and seeks go by it.
type lastAssignment struct {
	parts      []record.TopicPartition
	generation int32
}

func newClassicMember(m *membership) *classicMember {
	return &classicMember{membership: m, eager: !assignor.AllCooperative(m.c.cfg.Assignors), last: lastAssignment{generation: -1}}
}

// generation implements groupProtocol. It goes through one generation: prepare, join, sync, hand
// over, heartbeat until something ends it.
func (m *classicMember) generation(ctx context.Context) error {
	if err := m.prepare(ctx); err != nil {
		return err
	}
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
		return errRejoin // without having read anything of it
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

// prepare gives up what the member must not hold while it joins: all of it if it is eager, else
// what it is not subscribed to any more.
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

// handOver makes the new assignment the target. again: others wait for what was given up.
func (m *classicMember) handOver(ctx context.Context, parts []record.TopicPartition) (again bool, err error) {
	slices.SortFunc(parts, compareTP)
	again = !m.eager && slices.ContainsFunc(m.parts, func(tp record.TopicPartition) bool { return !slices.Contains(parts, tp) })
	if again {
		return true, m.adopt(ctx, parts)
	}
	_, err = m.retarget(ctx, parts)
	return false, err
}

// retarget hands parts to the polling goroutine as its target, and notes them once that has worked.
// If it fails nothing has changed: the partitions held before are still read, so the next join has
// to name them, or the group would give them to somebody else as well.
func (m *classicMember) retarget(ctx context.Context, parts []record.TopicPartition) (adopted <-chan struct{}, err error) {
	if adopted, err = m.c.retarget(ctx, m.number, wanted{names: parts}); err == nil {
		m.parts = parts
	}
	return adopted, err
}

// adopt makes parts the target and heartbeats until the polling goroutine has adopted it.
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

// leave implements groupProtocol. A static member goes by its session timeout.
func (m *classicMember) leave(ctx context.Context, id string) error {
	c := m.c
	if c.cfg.InstanceID != "" {
		return nil
	}
	per, err := c.groups.Leave(ctx, group.LeaveRequest{Group: c.cfg.Group, Members: []group.LeaveMember{{MemberID: id}}})
	err = errors.Join(append(per, err)...)
	if errors.Is(err, group.ErrUnknownMember) { // somebody removed us before: gone is gone
		return nil
	}
	return err
}

// reopenCommits implements groupProtocol. The membership goroutine has ended where the group does
// not accept commits:
//
//   - The answer to a Join was lost, and the group is a generation further. The same Join again is
//     answered at once with that generation, since it changes nothing.
//   - Between join and sync. The group's leader, perhaps this member, may be long in coming: a
//     member that joins with another subscription makes the group rebalance, and until that is over
//     commits are accepted again.
//
// It is tried until committing works, at most for a heartbeat interval.
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

// learnGeneration repeats a Join whose answer was lost. It returns false if what is held may have
// another owner by now.
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
