package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// memberState is what the coordinator knows this member by.
type memberState struct {
	id         string
	generation int32 // -1: in no generation
}

// member is the membership as others see it. Guarded by Consumer.mu.
type member struct {
	memberState
	changed      chan struct{} // closed and replaced when the state changes
	pollExceeded bool          // the partitions were lost because the application stayed away
	enforce      bool          // EnforceRebalance was called
	kick         chan struct{} // tells the membership goroutine; capacity 1
}

func (c *Consumer) setMember(id string, generation int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member.memberState = memberState{id, generation}
	close(c.member.changed)
	c.member.changed = make(chan struct{})
}

func (c *Consumer) memberID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member.id
}

func (c *Consumer) generation() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member.generation
}

// Metadata returns the membership as it is now, for commits made elsewhere (transactions). Generation is -1 outside of a generation.
func (c *Consumer) Metadata() group.Metadata {
	c.mu.Lock()
	defer c.mu.Unlock()
	return group.Metadata{Group: c.cfg.Group, MemberID: c.member.id, InstanceID: c.cfg.InstanceID, Generation: c.member.generation}
}

// EnforceRebalance makes the group rebalance although nothing changed. It does not wait. For a free consumer it does nothing.
func (c *Consumer) EnforceRebalance() {
	c.mu.Lock()
	c.member.enforce = true
	c.mu.Unlock()
	select {
	case c.member.kick <- struct{}{}:
	default:
	}
}

// membership is the goroutine that joins, syncs and heartbeats; its fields are the goroutine's own.
type membership struct {
	c        *Consumer
	owned    map[record.TopicPartition]bool // told to the poller as assigned
	eager    bool                           // some assignor cannot hand over incrementally
	lastBeat time.Time                      // of the last answer from the coordinator
	progress int64                          // of the application, when last looked at
	lastSeen time.Time                      // when it last made progress
	leading  map[string]int32               // partitions per topic that this member, as the leader, assigned; nil: not the leader
}

// errRejoin says that the group rebalances; errGone that this member is out of it.
var (
	errRejoin = errors.New("consumer: rebalance")
	errGone   = errors.New("consumer: member is out of the group")
)

func (c *Consumer) runMember(ctx context.Context) {
	m := &membership{c: c, owned: map[record.TopicPartition]bool{}, eager: !group.AllCooperative(c.cfg.Assignors)}
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
			m.pause(ctx, minBackoff)
		}
	}
}

func isFatalForMember(err error) bool {
	for _, fatal := range []error{
		group.ErrFencedInstance, group.ErrInconsistentProtocol, group.ErrInvalidSessionTimeout, group.ErrInvalidGroupID, group.ErrGroupMaxSize, group.ErrClosed,
	} {
		if errors.Is(err, fatal) {
			return true
		}
	}
	return false
}

// generation goes through one generation: prepare, join, sync, hand over, heartbeat until something ends it.
func (m *membership) generation(ctx context.Context) error {
	if m.eager && len(m.owned) > 0 {
		if err := m.revoke(ctx, slices.Collect(maps.Keys(m.owned))); err != nil {
			return err
		}
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
	again, err := m.handOver(ctx, parts)
	if err != nil {
		return err
	}
	if again {
		return errRejoin
	}
	return m.heartbeats(ctx, nil)
}

// handOver gives up what is not ours any more and takes what is new. again: others wait for what was given up.
func (m *membership) handOver(ctx context.Context, parts []record.TopicPartition) (again bool, err error) {
	now := map[record.TopicPartition]bool{}
	for _, tp := range parts {
		now[tp] = true
	}
	var gone, added []record.TopicPartition
	for tp := range m.owned {
		if !now[tp] {
			gone = append(gone, tp)
		}
	}
	for tp := range now {
		if !m.owned[tp] {
			added = append(added, tp)
		}
	}
	slices.SortFunc(gone, compareTP)
	slices.SortFunc(added, compareTP)
	if len(gone) > 0 {
		if err := m.revoke(ctx, gone); err != nil {
			return false, err
		}
	}
	for _, tp := range added {
		m.owned[tp] = true
	}
	m.c.tell(assigned, added)
	return len(gone) > 0 && !m.eager, nil
}

// revoke asks the poller to give partitions up and heartbeats until it has.
func (m *membership) revoke(ctx context.Context, tps []record.TopicPartition) error {
	slices.SortFunc(tps, compareTP)
	e := m.c.tell(revoked, tps)
	err := m.heartbeats(ctx, e.done)
	if err != nil && !errors.Is(err, errRejoin) {
		return err
	}
	for _, tp := range tps {
		delete(m.owned, tp)
	}
	return nil
}

// lose tells the poller that everything is gone, and waits until it has noticed: a member that is not polled does not join again.
func (m *membership) lose(ctx context.Context, pollExceeded bool) {
	e := m.forget(pollExceeded)
	select {
	case <-e.done:
	case <-ctx.Done():
	}
	m.lastSeen, m.lastBeat = time.Now(), time.Now()
}

func (m *membership) forget(pollExceeded bool) *event {
	tps := slices.SortedFunc(maps.Keys(m.owned), compareTP)
	clear(m.owned)
	m.leading = nil
	m.c.mu.Lock()
	m.c.member.pollExceeded = pollExceeded
	m.c.mu.Unlock()
	m.c.setMember("", -1)
	return m.c.tell(lost, tps)
}

// heartbeats keeps the membership alive until something ends the generation, which is returned, or until done (nil: never) is closed.
// While it waits for done, a rebalance does not end it: the poller is being asked to make way for that already.
func (m *membership) heartbeats(ctx context.Context, done <-chan struct{}) error {
	c := m.c
	tick := time.NewTicker(c.cfg.HeartbeatInterval)
	defer tick.Stop()
	watch, stopWatch := m.watchPartitions(ctx, done == nil)
	defer stopWatch()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			return nil
		case <-watch:
			return errRejoin
		case <-c.member.kick:
			if c.takeEnforce() && done == nil {
				return errRejoin
			}
			continue
		case <-tick.C:
		}
		if m.applicationGone() {
			m.leaveForNow(ctx)
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

// applicationGone reports whether the application has shown no sign of life for MaxPollInterval.
func (m *membership) applicationGone() bool {
	c := m.c
	if p := c.progress.Load(); p != m.progress || c.waiting() {
		m.progress, m.lastSeen = p, time.Now()
		return false
	}
	return time.Since(m.lastSeen) >= c.cfg.MaxPollInterval
}

// waiting reports whether the application is inside a poll, with nothing in hand.
func (c *Consumer) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inWait
}

// leaveForNow leaves the group so that others get the partitions; the next poll joins again.
func (m *membership) leaveForNow(ctx context.Context) {
	c := m.c
	c.cfg.Logger.Warn("application does not poll, leaving the group", "group", c.cfg.Group, "member_id", c.memberID(), "max_poll_interval", c.cfg.MaxPollInterval)
	if c.cfg.InstanceID != "" {
		return // a static member goes by its session timeout
	}
	call, cancel := context.WithTimeout(ctx, c.cfg.HeartbeatInterval)
	defer cancel()
	if _, err := c.groups.Leave(call, group.LeaveRequest{Group: c.cfg.Group, Members: []group.LeaveMember{{MemberID: c.memberID()}}}); err != nil {
		c.cfg.Logger.Debug("leave failed", "group", c.cfg.Group, "err", err)
	}
}

// pause waits for d.
func (m *membership) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
