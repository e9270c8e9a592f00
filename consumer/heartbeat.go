package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
)

// heartbeats keeps the membership alive until the generation ends, and returns the cause, or until
// done (nil: never) is closed. While it waits for done, a rebalance does not end it: the poller has
// already been requested to give up partitions.
func (m *classicMember) heartbeats(ctx context.Context, done <-chan struct{}) error {
	c := m.c
	tick := time.NewTicker(c.cfg.HeartbeatInterval)
	defer tick.Stop()
	for look := true; ; {
		if look && done == nil {
			look = false
			if err := m.review(ctx); err != nil {
				return err
			}
			m.backoff = 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			return nil
		case <-c.member.kick:
			look = true
			continue
		case <-m.news:
		case <-tick.C:
		}
		if m.applicationGone() {
			return m.stayedAway(ctx)
		}
		err := m.beat(ctx)
		if done != nil && errors.Is(err, errRejoin) {
			continue
		}
		if err == nil && done == nil {
			err = m.inspect(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// review checks whether the group has to rebalance. Assignments follow re-created topics without a
// rebalance.
func (m *classicMember) review(ctx context.Context) error {
	if m.c.takeEnforce() {
		m.reason = "rebalance enforced by user"
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
			m.reason = changedTopics(m.leading, counts)
			return errRejoin
		}
	}
	return m.reviewReturn(ctx)
}

// changedTopics describes the first difference between two numbers of partitions, by topic.
func changedTopics(before, after map[string]int32) string {
	for _, t := range slices.Sorted(maps.Keys(before)) {
		switch was, is := before[t], after[t]; {
		case was == is:
		case was == 0:
			return fmt.Sprintf("topic %s was created with %d partitions", t, is)
		case is == 0:
			return fmt.Sprintf("topic %s was deleted", t)
		default:
			return fmt.Sprintf("topic %s has %d partitions, and had %d", t, is, was)
		}
	}
	return "topics changed"
}

func (c *Consumer) takeEnforce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.member.enforce
	c.member.enforce = false
	return was
}

// beat sends one heartbeat.
func (m *classicMember) beat(ctx context.Context) error {
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
	case retriable.Final(err):
		return fmt.Errorf("heartbeat: %w", err)
	case errors.Is(err, group.ErrRebalanceInProgress):
		m.lastBeat = time.Now()
		return errRejoin
	case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrIllegalGeneration):
		return fmt.Errorf("%w: %w", errGone, err)
	case isFatalForMember(err):
		return err
	case time.Since(m.lastBeat) >= c.cfg.SessionTimeout:
		return fmt.Errorf("%w: no heartbeat got through for %s: %w", errSilence, c.cfg.SessionTimeout, err)
	}
	c.cfg.Logger.Debug("heartbeat failed", "group", c.cfg.Group, "err", err)
	return nil
}

func (c *Consumer) state() memberState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member.memberState
}

// applicationGone reports whether the application was inactive for MaxPollInterval, or a handler
// call has taken that long: Run polls concurrently with its handlers.
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

// waiting reports whether the application is inside a poll and holds no records.
func (c *Consumer) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiter.waiting
}

// stayedAway ends the membership of an application that does not poll, so that other members get
// the partitions; the next poll joins again.
func (m *membership) stayedAway(ctx context.Context) error {
	c := m.c
	id := c.state().id
	m.endMembership(true) // before other members get the partitions
	c.cfg.Logger.Warn("application does not poll, leaving the group", "group", c.cfg.Group, "member_id", id, "max_poll_interval", c.cfg.MaxPollInterval)
	call, cancel := context.WithTimeout(ctx, c.cfg.HeartbeatInterval)
	defer cancel()
	if err := m.protocol.leave(call, id, group.PollTimeoutReason); err != nil {
		c.cfg.Logger.Debug("leave failed", "group", c.cfg.Group, "err", err)
	}
	return ErrPollTimeout
}
