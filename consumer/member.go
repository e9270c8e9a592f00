package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// memberState is what the coordinator knows this member by.
type memberState struct {
	id         string
	generation int32 // -1: in no generation
}

// member is the membership as others see it. Guarded by Consumer.mu.
type member struct {
	memberState
	changed chan struct{} // closed and replaced when the state changes

	// unanswered is the last Join if its answer did not come (yet); nil: it did. The group may be
	// one generation further than memberState then, with this member in it.
	unanswered *group.JoinRequest

	pollExceeded bool          // the partitions were lost because the application stayed away
	enforce      bool          // EnforceRebalance or Subscribe was called
	kick         chan struct{} // tells the membership goroutine; capacity 1
}

func (c *Consumer) setMember(id string, generation int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member.memberState, c.member.unanswered = memberState{id, generation}, nil
	close(c.member.changed)
	c.member.changed = make(chan struct{})
}

// Metadata returns the membership as it is now, for commits made elsewhere (transactions).
// Generation is -1 outside of a generation.
func (c *Consumer) Metadata() group.Metadata {
	c.mu.Lock()
	defer c.mu.Unlock()
	return group.Metadata{Group: c.cfg.Group, MemberID: c.member.id, InstanceID: c.cfg.InstanceID, Generation: c.member.generation}
}

// EnforceRebalance makes the group rebalance although nothing changed. It does not wait. For a free
// consumer it does nothing.
func (c *Consumer) EnforceRebalance() {
	c.mu.Lock()
	c.member.enforce = true
	c.mu.Unlock()
	c.kickMember()
}

// kickMember makes the membership goroutine look around.
func (c *Consumer) kickMember() {
	select {
	case c.member.kick <- struct{}{}:
	default:
	}
}

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
	// partitions per topic that this member, as the leader, assigned; nil: not the leader
	leading map[string]int32
}

// lastAssignment is what a member had before it gave everything up to join again: eager assignors
// that are sticky want to know it.
type lastAssignment struct {
	parts      []record.TopicPartition
	generation int32
}

// errRejoin says that the group rebalances; errGone that this member is out of it.
var (
	errRejoin = errors.New("consumer: rebalance")
	errGone   = errors.New("consumer: member is out of the group")
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
			m.lose(ctx, false)
		case errors.Is(err, ErrPollTimeout):
			m.lose(ctx, true)
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
	m.last = lastAssignment{parts, join.Generation}
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
	m.parts = keep
	return m.adopt(ctx)
}

// handOver makes the new assignment the target. again: others wait for what was given up.
func (m *membership) handOver(ctx context.Context, parts []record.TopicPartition) (again bool, err error) {
	slices.SortFunc(parts, compareTP)
	again = !m.eager && slices.ContainsFunc(m.parts, func(tp record.TopicPartition) bool { return !slices.Contains(parts, tp) })
	m.parts = parts
	if again {
		return true, m.adopt(ctx)
	}
	_, err = m.retarget(ctx)
	return false, err
}

// retarget makes what the group assigned the target.
func (m *membership) retarget(ctx context.Context) (adopted <-chan struct{}, err error) {
	return m.c.retarget(ctx, m.number, m.parts)
}

// adopt makes what the group assigned the target and heartbeats until the polling goroutine has
// adopted it.
func (m *membership) adopt(ctx context.Context) error {
	adopted, err := m.retarget(ctx)
	if err == nil {
		err = m.heartbeats(ctx, adopted)
	}
	return err
}

// lose makes everything lost, and waits until the polling goroutine has noticed: a member that is
// not polled does not join again.
func (m *membership) lose(ctx context.Context, pollExceeded bool) {
	adopted := m.forget(pollExceeded)
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

// heartbeats keeps the membership alive until something ends the generation, which is returned, or
// until done (nil: never) is closed. While it waits for done, a rebalance does not end it: the
// poller is being asked to make way for that already.
func (m *membership) heartbeats(ctx context.Context, done <-chan struct{}) error {
	c := m.c
	tick := time.NewTicker(c.cfg.HeartbeatInterval)
	defer tick.Stop()
	for look := true; ; {
		if look && done == nil {
			look = false
			if err := m.review(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			return nil
		case <-c.member.kick:
			look = true
			continue
		case <-tick.C:
		}
		if m.applicationGone() {
			id := c.state().id
			m.forget(true) // before others get the partitions
			m.leaveForNow(ctx, id)
			return ErrPollTimeout
		}
		err := m.beat(ctx)
		if done != nil && errors.Is(err, errRejoin) {
			continue
		}
		if err != nil {
			return err
		}
	}
}

// review looks whether the group has to rebalance. Assignments follow topics that are created again
// without that.
func (m *membership) review(ctx context.Context) error {
	if m.c.takeEnforce() {
		return errRejoin
	}
	topics, err := m.c.subscribed(ctx)
	if err != nil {
		return fmt.Errorf("subscription: %w", err)
	}
	if !slices.Equal(topics, m.subscribed) {
		return errRejoin
	}
	if m.leading != nil {
		counts, err := m.c.partitionCounts(ctx, slices.Collect(maps.Keys(m.leading)))
		if err != nil {
			return fmt.Errorf("partitions: %w", err)
		}
		if !maps.Equal(counts, m.leading) {
			return errRejoin
		}
	}
	return nil
}

func (c *Consumer) takeEnforce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.member.enforce
	c.member.enforce = false
	return was
}

// beat sends one heartbeat.
func (m *membership) beat(ctx context.Context) error {
	c := m.c
	s := c.state()
	if s.id == "" {
		return nil // between two memberships
	}
	call, cancel := context.WithTimeout(ctx, c.cfg.HeartbeatInterval)
	defer cancel()
	err := c.groups.Heartbeat(call, group.HeartbeatRequest{Group: c.cfg.Group, MemberID: s.id, InstanceID: c.cfg.InstanceID, Generation: s.generation})
	switch {
	case err == nil:
		m.lastBeat = time.Now()
		return nil
	case errors.Is(err, group.ErrRebalanceInProgress):
		m.lastBeat = time.Now()
		return errRejoin
	case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrIllegalGeneration):
		return fmt.Errorf("%w: %w", errGone, err)
	case isFatalForMember(err):
		return err
	case time.Since(m.lastBeat) >= c.cfg.SessionTimeout:
		return fmt.Errorf("%w: no heartbeat got through for %s: %w", errGone, c.cfg.SessionTimeout, err)
	}
	c.cfg.Logger.Debug("heartbeat failed", "group", c.cfg.Group, "err", err)
	return nil
}

func (c *Consumer) state() memberState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member.memberState
}

// applicationGone reports whether the application has shown no sign of life for MaxPollInterval, or
// a call of a handler has taken as long: Run polls on beside its handlers.
func (m *membership) applicationGone() bool {
	c := m.c
	if r := c.running(); r != nil && r.overdue(c.cfg.MaxPollInterval) {
		return true
	}
	if p := c.progress.Load() + c.records.Load(); p != m.progress || c.waiting() {
		m.progress, m.lastSeen = p, time.Now()
		return false
	}
	return time.Since(m.lastSeen) >= c.cfg.MaxPollInterval
}

// waiting reports whether the application is inside a poll, with nothing in hand.
func (c *Consumer) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiter.waiting
}

// leaveForNow leaves the group so that others get the partitions; the next poll joins again.
func (m *membership) leaveForNow(ctx context.Context, id string) {
	c := m.c
	c.cfg.Logger.Warn("application does not poll, leaving the group", "group", c.cfg.Group, "member_id", id, "max_poll_interval", c.cfg.MaxPollInterval)
	if c.cfg.InstanceID != "" {
		return // a static member goes by its session timeout
	}
	call, cancel := context.WithTimeout(ctx, c.cfg.HeartbeatInterval)
	defer cancel()
	if _, err := c.groups.Leave(call, group.LeaveRequest{Group: c.cfg.Group, Members: []group.LeaveMember{{MemberID: id}}}); err != nil {
		c.cfg.Logger.Debug("leave failed", "group", c.cfg.Group, "err", err)
	}
}
