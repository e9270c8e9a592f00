package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// membership is the goroutine that joins, syncs and heartbeats; its fields are the goroutine's own.
type membership struct {
	c          *Consumer
	number     int64                   // of the membership, see assignment
	parts      []record.TopicPartition // assigned by the group and not given up
	last       lastAssignment          // what an eager member gave up to join again
	subscribed []string                // topics that the last join named
	eager      bool                    // some assignor cannot hand over incrementally
	lastBeat   time.Time               // of the last answer from the coordinator
	progress   int64                   // of the application, when last looked at
	lastSeen   time.Time               // when it last made progress
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

// errRejoin says that the group rebalances; errGone that this member is out of it; errSilence that
// it may be, since nobody has heard of it for a session.
var (
	errRejoin  = errors.New("consumer: rebalance")
	errGone    = errors.New("consumer: member is out of the group")
	errSilence = errors.New("consumer: member may be out of the group")
)

func (c *Consumer) runMember(ctx context.Context) {
	m := &membership{c: c, eager: !assignor.AllCooperative(c.cfg.Assignors), last: lastAssignment{generation: -1}}
	m.lastSeen, m.lastBeat = time.Now(), time.Now()
	c.setMember("", -1)
	for ctx.Err() == nil {
		err := m.generation(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errRejoin):
		case errors.Is(err, errGone):
			m.lose(ctx, m.forget(false))
		case errors.Is(err, errSilence):
			m.lose(ctx, m.doubt())
		case errors.Is(err, ErrPollTimeout):
			m.lose(ctx, m.forget(true))
		case isFatalForMember(err):
			m.forget(false)
			c.fail(fmt.Errorf("consumer: group %s: %w", c.cfg.Group, err))
			return
		default:
			c.cfg.Logger.Warn("group membership interrupted, trying again", "group", c.cfg.Group, "err", err)
			pause(ctx, minBackoff)
		}
	}
}

func isFatalForMember(err error) bool {
	for _, fatal := range []error{
		group.ErrFencedInstance, group.ErrInconsistentProtocol, group.ErrInvalidSessionTimeout, group.ErrInvalidGroupID, group.ErrGroupMaxSize, group.ErrClosed, replication.ErrClosed,
	} {
		if errors.Is(err, fatal) {
			return true
		}
	}
	return false
}

// generation goes through one generation: prepare, join, sync, hand over, heartbeat until something
// ends it.
func (m *membership) generation(ctx context.Context) error {
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
func (m *membership) prepare(ctx context.Context) error {
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
func (m *membership) handOver(ctx context.Context, parts []record.TopicPartition) (again bool, err error) {
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
func (m *membership) retarget(ctx context.Context, parts []record.TopicPartition) (adopted <-chan struct{}, err error) {
	if adopted, err = m.c.retarget(ctx, m.number, parts); err == nil {
		m.parts = parts
	}
	return adopted, err
}

// adopt makes parts the target and heartbeats until the polling goroutine has adopted it.
func (m *membership) adopt(ctx context.Context, parts []record.TopicPartition) error {
	adopted, err := m.retarget(ctx, parts)
	if err == nil {
		err = m.heartbeats(ctx, adopted)
	}
	return err
}

// lose waits until the polling goroutine has noticed that everything is lost: a member that is not
// polled does not join again.
func (m *membership) lose(ctx context.Context, adopted <-chan struct{}) {
	select {
	case <-adopted:
	case <-ctx.Done():
	}
	m.lastSeen, m.lastBeat = time.Now(), time.Now()
}

// forget ends the membership.
func (m *membership) forget(pollExceeded bool) (adopted <-chan struct{}) {
	adopted = m.disown(pollExceeded)
	m.c.setMember("", -1)
	return adopted
}

// doubt gives everything up, as others may have it by now, but keeps the member's id: a coordinator
// that was away itself knows the member still, and would wait a session for one that does not come
// back under its id.
func (m *membership) doubt() (adopted <-chan struct{}) {
	id := m.c.state().id
	adopted = m.disown(false)
	m.c.setMember(id, -1)
	return adopted
}

// disown makes everything lost: what the polling goroutine holds, and what it has not adopted yet,
// is not ours from here on.
func (m *membership) disown(pollExceeded bool) (adopted <-chan struct{}) {
	m.number++
	m.parts, m.leading = nil, nil
	m.last = lastAssignment{generation: -1}
	m.c.mu.Lock()
	m.c.member.pollExceeded = pollExceeded
	adopted = m.c.assignLocked(target{assignment: assignment{membership: m.number}})
	m.c.mu.Unlock()
	return adopted
}
