package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Values of the member epoch that are not epochs. Kafka: ConsumerGroupHeartbeatRequest.
const (
	joinEpoch        = 0
	leaveEpoch       = -1
	leaveStaticEpoch = -2 // a static member leaves temporarily
)

// silence is the time without a response after which a member of the newer protocol gives up all
// partitions: the smallest session timeout of a group in Kafka.
const silence = DefaultSessionTimeout

// A modernMember implements the newer protocol (KIP-848). Its only requests are heartbeats, and the
// coordinator's responses contain its assignment. It owns a partition to be given up until its
// heartbeat no longer lists it. A heartbeat must therefore list every partition that the polling
// goroutine may still take.
type modernMember struct {
	*membership
	groups ConsumerGroupBackend

	id       string
	epoch    int32
	interval time.Duration // heartbeat interval of the group
	all      bool          // the next heartbeat is a full one: something has changed, or a response was lost

	retryAfter time.Duration // pause last requested by the group; 0: use interval
	retry      time.Duration // present pause, at most interval

	assigned []offsets.TopicIDPartitions // last assignment from the group
	owing    bool                        // the group waits for the member to confirm the assignment
	target   wanted                      // part of assigned that is the polling goroutine's target
	adopted  <-chan struct{}             // closed when the target is adopted; nil: the group has been notified
	topics   map[string]topicView        // subscribed topics at the last check
}

func newModernMember(m *membership, groups ConsumerGroupBackend) *modernMember {
	return &modernMember{membership: m, groups: groups, id: topic.NewID().String(), interval: m.c.cfg.HeartbeatInterval}
}

// generation implements groupProtocol. It sends heartbeats at the group's interval, and immediately
// when there is a change to report or to fetch.
func (m *modernMember) generation(ctx context.Context) error {
	news := make(chan struct{}, 1)
	defer m.groups.NotifyRebalanced(m.c.cfg.Group, news)()
	m.all, m.retryAfter, m.retry = true, 0, 0
	next := time.NewTimer(m.interval)
	defer next.Stop()
	for {
		if m.applicationGone() {
			return m.stayedAway(ctx)
		}
		if err := m.beat(ctx); err != nil {
			return err
		}
		if err := m.reconcile(ctx); err != nil {
			return err
		}
		m.backoff = 0
		next.Reset(m.pause())
		if err := m.awaitReason(ctx, news, next.C); err != nil {
			return err
		}
	}
}

// awaitReason returns when there is a reason for a heartbeat.
func (m *modernMember) awaitReason(ctx context.Context, news <-chan struct{}, next <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.adopted:
			m.adopted, m.owing, m.all = nil, false, true
			return nil
		case <-m.c.member.kick:
			news, err := m.look(ctx)
			if news {
				m.all = true
			}
			if err != nil || news {
				return err
			}
		case <-news:
			return nil
		case <-next:
			m.retry = min(2*m.retry, m.interval)
			return nil
		}
	}
}

// noteRetry stores the pause that the group requests. Repeated equal requests make the pause
// longer: other members may take long to give up partitions that this member waits for.
func (m *modernMember) noteRetry(resp group.ConsumerHeartbeatResponse) {
	news := resp.MemberEpoch != m.epoch || resp.Assignment != nil
	if after := resp.RetryAfter; news || after != m.retryAfter {
		m.retryAfter, m.retry = after, after
	}
}

// pause returns the time until the next heartbeat if nothing happens.
func (m *modernMember) pause() time.Duration {
	if m.retry > 0 {
		return min(m.retry, m.interval)
	}
	return m.interval // no change is in progress
}

// look reports whether the coordinator needs a heartbeat: the subscription has changed, or topics
// have, which the coordinator checks at a heartbeat.
func (m *modernMember) look(ctx context.Context) (news bool, err error) {
	news = m.c.takeEnforce()
	topics, err := m.subscribedTopics(ctx)
	if err != nil {
		return false, err
	}
	if !maps.Equal(topics, m.topics) {
		m.topics, news = topics, true
	}
	return news, nil
}

// subscribedTopics returns the topics subscribed to that exist.
func (m *modernMember) subscribedTopics(ctx context.Context) (map[string]topicView, error) {
	names, err := m.c.subscribed(ctx)
	if err != nil {
		return nil, fmt.Errorf("subscription: %w", err)
	}
	views, err := m.c.view(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("subscription: %w", err)
	}
	return views, nil
}

// beat sends a heartbeat, and stores the response.
func (m *modernMember) beat(ctx context.Context) error {
	c := m.c
	call := ctx
	if m.epoch != joinEpoch {
		bounded, cancel := context.WithTimeout(ctx, m.interval)
		defer cancel()
		call = bounded
	} else {
		c.setMember(m.id, -1) // the goroutine that closes the consumer leaves under this id, whether or not there is a response
	}
	resp, err := m.groups.ConsumerHeartbeat(call, m.request())
	if err != nil {
		m.all = true // the coordinator may have received it
		return m.unanswered(err)
	}
	m.all, m.lastBeat, m.interval = false, time.Now(), resp.HeartbeatInterval
	m.noteRetry(resp)
	if resp.MemberEpoch != m.epoch {
		c.mu.Lock()
		c.stats.Rebalances++
		if m.epoch == joinEpoch {
			c.member.pollExceeded = false
		}
		c.mu.Unlock()
		m.epoch = resp.MemberEpoch
		c.setMember(m.id, m.epoch)
	}
	if resp.Assignment != nil && !slices.EqualFunc(resp.Assignment, m.assigned, samePartitions) {
		m.assigned, m.owing = resp.Assignment, true
	}
	return nil
}

func samePartitions(a, b offsets.TopicIDPartitions) bool {
	return a.TopicID == b.TopicID && slices.Equal(a.Partitions, b.Partitions)
}

// unanswered returns the effect of a failed heartbeat on the membership; nil: it continues.
func (m *modernMember) unanswered(err error) error {
	c := m.c
	switch joins := m.epoch == joinEpoch; {
	case retriable.Final(err):
		return fmt.Errorf("heartbeat: %w", err)
	case errors.Is(err, group.ErrFencedMemberEpoch), errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrGroupNotFound) && !joins:
		return fmt.Errorf("%w: %w", errGone, err)
	case errors.Is(err, group.ErrGroupNotFound), errors.Is(err, group.ErrInvalidRequest), errors.Is(err, group.ErrUnreleasedInstance),
		errors.Is(err, group.ErrUnsupportedAssignor), errors.Is(err, group.ErrInvalidRegularExpression):
		return fmt.Errorf("%w: %w", errRefused, err)
	case isFatalForMember(err), joins:
		return fmt.Errorf("heartbeat: %w", err)
	case time.Since(m.lastBeat) >= silence:
		return fmt.Errorf("%w: no heartbeat got through for %s: %w", errSilence, silence, err)
	}
	c.cfg.Logger.Debug("heartbeat failed", "group", c.cfg.Group, "err", err)
	return nil
}

// request is the next heartbeat.
func (m *modernMember) request() group.ConsumerHeartbeatRequest {
	c := m.c
	req := group.ConsumerHeartbeatRequest{
		Group: c.cfg.Group, MemberID: m.id, MemberEpoch: m.epoch, InstanceID: c.cfg.InstanceID, RackID: c.cfg.Rack, ClientID: c.cfg.ClientID, RebalanceTimeout: -1,
	}
	if !m.all {
		return req
	}
	req.RebalanceTimeout, req.Assignor = c.cfg.RebalanceTimeout, c.cfg.RemoteAssignor
	c.mu.Lock()
	defer c.mu.Unlock()
	regex := ""
	req.SubscribedTopics, req.SubscribedRegex = []string{}, &regex
	if c.pattern != nil {
		regex = c.cfg.TopicPattern.String()
	} else {
		req.SubscribedTopics = slices.Concat(req.SubscribedTopics, c.topics)
	}
	req.Owned = c.claimLocked(m.number)
	return req
}

// claimLocked returns the partitions that this member has, and those of its target that it may
// still take. All others may belong to another member as soon as the group gets the heartbeat:
// their open seeks are dropped.
func (c *Consumer) claimLocked(membership int64) []offsets.TopicIDPartitions {
	type claim struct {
		record.TopicPartition
		id topic.ID
	}
	claims, names := map[claim]bool{}, map[record.TopicPartition]bool{}
	if c.held.membership == membership {
		for tp, id := range c.held.partitions {
			claims[claim{tp, id}], names[tp] = true, true
		}
	}
	if c.target.membership == membership {
		for _, tp := range c.target.names {
			claims[claim{tp, c.target.ids[tp.Topic]}], names[tp] = true, true
		}
	}
	maps.DeleteFunc(c.sought, func(tp record.TopicPartition, _ openSeek) bool { return !names[tp] })
	numbers := map[topic.ID][]int32{}
	for cl := range claims {
		numbers[cl.id] = append(numbers[cl.id], cl.Partition)
	}
	out := make([]offsets.TopicIDPartitions, 0, len(numbers)) // not nil: an empty list is sent
	for id, ps := range numbers {
		out = append(out, offsets.TopicIDPartitions{TopicID: id, Partitions: ps})
	}
	return out
}

// reconcile makes the group's assignment, without topics no longer subscribed to, the target of the
// polling goroutine. The next heartbeat reports its adoption, even if nothing changes. Topic ids
// without a known name are looked up again when topics change.
func (m *modernMember) reconcile(ctx context.Context) error {
	topics, err := m.subscribedTopics(ctx)
	if err != nil {
		return err
	}
	names := make(map[topic.ID]string, len(topics))
	for name, v := range topics {
		names[v.id] = name
	}
	want := wanted{ids: map[string]topic.ID{}}
	for _, a := range m.assigned {
		name, known := names[a.TopicID]
		if !known {
			continue
		}
		want.ids[name] = a.TopicID
		for _, p := range a.Partitions {
			want.names = append(want.names, record.TopicPartition{Topic: name, Partition: p})
		}
	}
	slices.SortFunc(want.names, compareTP)
	if want.equal(m.target) && (!m.owing || m.adopted != nil) {
		return nil
	}
	adopted, err := m.c.retarget(ctx, m.number, want)
	if err != nil {
		return fmt.Errorf("assignment: %w", err)
	}
	m.target, m.adopted, m.owing = want, adopted, false
	return nil
}

// disowned implements groupProtocol.
func (m *modernMember) disowned() {
	m.epoch, m.all = joinEpoch, true
	m.assigned, m.owing, m.target, m.adopted = nil, false, wanted{}, nil
}

// leave implements groupProtocol. A static member leaves temporarily and keeps its partitions until
// its session times out.
func (m *modernMember) leave(ctx context.Context, id, reason string) error {
	c := m.c
	epoch := int32(leaveEpoch)
	if c.cfg.InstanceID != "" {
		epoch = leaveStaticEpoch
	}
	_, err := m.groups.ConsumerHeartbeat(ctx, group.ConsumerHeartbeatRequest{
		Group: c.cfg.Group, MemberID: id, MemberEpoch: epoch, InstanceID: c.cfg.InstanceID, ClientID: c.cfg.ClientID, RebalanceTimeout: -1, Reason: reason,
	})
	for _, gone := range []error{group.ErrUnknownMember, group.ErrGroupNotFound, group.ErrFencedInstance} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// reopenCommits implements groupProtocol. It does nothing: commits of this member's partitions are
// accepted in any epoch since it got them (KIP-1251).
func (m *modernMember) reopenCommits(context.Context) (stop func()) { return func() {} }
