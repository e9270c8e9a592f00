package modern

import (
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// EventHeartbeat is a ConsumerHeartbeatRequest that passed the checks that need no group. The reply
// is a protocol.ConsumerHeartbeatResponse.
type EventHeartbeat struct {
	*protocol.ConsumerHeartbeatRequest
	Topics  *Topics
	Matches *Matches // nil before the first attempt
	// Repeated is set if a former coordinator may have stored this request's changes. The member
	// did not receive that response.
	Repeated bool
	To       machine.Ticket
}

// Refuse returns the reply of a group of another kind.
func (e EventHeartbeat) Refuse() machine.Reply {
	return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
}

// full reports whether the request has all fields. The response then has the assignment. Kafka:
// GroupMetadataManager.consumerGroupHeartbeat, isFullRequest.
func (e EventHeartbeat) full() bool {
	subscribes := e.SubscribedTopics != nil || e.SubscribedRegex != nil
	return e.Repeated || e.MemberEpoch == joinEpoch || e.RebalanceTimeout >= 0 && subscribes && e.Owned != nil
}

func (e EventHeartbeat) step(g *Group, now time.Time) {
	g.see(e.Topics)
	resp, err := e.answer(g, now)
	if err != nil {
		g.refuse(e.To, err)
		return
	}
	g.reply(e.To, *resp, nil)
}

func (e EventHeartbeat) answer(g *Group, now time.Time) (*protocol.ConsumerHeartbeatResponse, error) {
	if e.MemberEpoch < 0 {
		return e.leave(g)
	}
	if e.MemberEpoch > 0 && g.epoch == 0 {
		return nil, protocol.ErrGroupNotFound
	}
	if g.full(e.MemberID, e.InstanceID) {
		return nil, protocol.ErrGroupMaxSize
	}
	again := e.MemberEpoch == joinEpoch && len(e.Owned) == 0
	c := &change{g: g, now: now, epoch: g.epoch, matches: e.Matches, again: again}
	m, err := e.find(c)
	if err != nil {
		return nil, err
	}
	return e.update(c, m, now)
}

// find returns the sender of e, which may be new.
func (e EventHeartbeat) find(c *change) (*member, error) {
	g := c.g
	m := g.members[e.MemberID]
	if e.InstanceID != "" {
		switch id, known := g.static[e.InstanceID]; {
		case !known && e.MemberEpoch > 0:
			return nil, protocol.ErrUnknownMember
		case known && id != e.MemberID && e.MemberEpoch > 0:
			return nil, protocol.ErrFencedInstance
		case known && id != e.MemberID:
			return c.replace(g.members[id], e.MemberID, modernMember)
		}
	}
	switch {
	case m == nil && e.MemberEpoch > 0:
		return nil, protocol.ErrUnknownMember
	case m == nil:
		return &member{id: e.MemberID, assigned: []held{}, revoking: []held{}}, nil
	case e.MemberEpoch == joinEpoch:
		return m, nil // it lost the first response, or repeats the request
	}
	return m, e.checkEpoch(m)
}

// checkEpoch returns an error if the epoch is not the member's. The previous epoch is accepted from
// a member that has missed the new one, if it owns only partitions that are assigned to it.
func (e EventHeartbeat) checkEpoch(m *member) error {
	than := "smaller"
	switch {
	case e.MemberEpoch == m.epoch:
		return nil
	case e.MemberEpoch > m.epoch:
		than = "greater"
	case e.MemberEpoch == m.previous && e.Repeated && e.Owned == nil:
		return nil // only this request can have ended that epoch
	case e.MemberEpoch == m.previous && e.Owned != nil:
		foreign := func(p partition) bool { _, ok := has(m.assigned, p); return !ok }
		if !slices.ContainsFunc(partitionsOf(e.Owned), foreign) {
			return nil
		}
	}
	return classic.Says(protocol.ErrFencedMemberEpoch, "The consumer group member has a %s member epoch (%d) than the one known by the group coordinator (%d). "+
		"The member must abandon all its partitions and rejoin.", than, e.MemberEpoch, m.epoch)
}

// subscription returns s with the changes of the request.
func (e EventHeartbeat) subscription(s subscription) subscription {
	if e.InstanceID != "" {
		s.InstanceID = e.InstanceID
	}
	if e.RackID != "" {
		s.RackID = e.RackID
	}
	if e.RebalanceTimeout >= 0 {
		s.RebalanceTimeoutMs = int32(e.RebalanceTimeout.Milliseconds())
	}
	if e.Assignor != "" {
		s.Assignor = e.Assignor
	}
	if e.SubscribedTopics != nil {
		s.Topics = slices.Compact(slices.Sorted(slices.Values(e.SubscribedTopics)))
	}
	if e.SubscribedRegex != nil {
		s.Regex = *e.SubscribedRegex
	}
	s.ClientID, s.ClientHost, s.Classic = e.ClientID, e.ClientHost, nil
	return s
}

// update applies the request, and moves the member towards its target.
func (e EventHeartbeat) update(c *change, before *member, now time.Time) (*protocol.ConsumerHeartbeatResponse, error) {
	g, m := c.g, *before
	m.subscription = e.subscription(before.subscription)
	if err := c.subscribe(before, &m); err != nil {
		return nil, err
	}
	target, err := c.assign(&m)
	if err != nil {
		return nil, err
	}
	next := c.reconcile(&m, target, partitionsOf(e.Owned), e.Owned != nil)
	e.timers(g, before, next, now)
	resp := &protocol.ConsumerHeartbeatResponse{MemberID: m.id, MemberEpoch: next.epoch, HeartbeatInterval: g.timeouts().Heartbeat, RetryAfter: c.retryAfter(next)}
	if e.full() || !samePartitions(before.assigned, next.assigned) {
		resp.Assignment = byTopic(plain(next.assigned))
	}
	return resp, nil
}

// timers restarts the member's session and its deadline to revoke partitions.
func (e EventHeartbeat) timers(g *Group, before, next *member, now time.Time) {
	session, id := g.timeouts().Session, next.id
	g.after = append(g.after, func() { // it may have used the classic protocol
		delete(g.joins, id)
		delete(g.syncs, id)
	})
	if g.members[id] != nil { // stays prolonged if the append fails
		g.alive(id, now, session)
	} else {
		g.after = append(g.after, func() { g.alive(id, now, session) })
		g.wake(now.Add(session))
	}
	if next.state == unrevoked && (before.state != unrevoked || before.epoch != next.epoch) {
		deadline := now.Add(time.Duration(next.RebalanceTimeoutMs) * time.Millisecond)
		g.after = append(g.after, func() { g.revokes[id] = deadline })
		g.wake(deadline)
	}
}
