package modern

import (
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// EventJoin is a JoinRequest of the classic protocol to a group with members of the newer one. The
// reply, a protocol.JoinResponse, waits for no other member: the coordinator assigns. Kafka:
// classicGroupJoinToConsumerGroup.
type EventJoin struct {
	*protocol.JoinRequest
	NewID   string // fresh, for a member without one
	Topics  *Topics
	Matches *Matches // nil before the first attempt
	To      machine.Ticket
}

// Refuse returns the reply of a group of another kind: the caller retries with the event of that
// kind.
func (e EventJoin) Refuse() machine.Reply {
	return machine.Reply{To: e.To, Err: machine.ErrNotAvailable}
}

func (e EventJoin) step(g *Group, now time.Time) {
	g.see(e.Topics)
	resp, err := e.answer(g, now)
	if err != nil {
		g.refuseWith(e.To, protocol.JoinResponse{}, err) // without a member id, as in Kafka
		return
	}
	g.reply(e.To, *resp, nil)
}

func (e EventJoin) answer(g *Group, now time.Time) (*protocol.JoinResponse, error) {
	id := e.MemberID
	if id == "" {
		id = e.NewID
	}
	if g.full(id, e.InstanceID) {
		return nil, protocol.ErrGroupMaxSize
	}
	if !g.speaks(e.ProtocolType, e.Protocols) {
		return nil, protocol.ErrInconsistentProtocol
	}
	if e.MemberID == "" && e.InstanceID == "" && e.RequireMemberID {
		return nil, &protocol.MemberIDRequiredError{MemberID: id} // even if its subscription is invalid
	}
	sub, err := assignor.ParseSubscription(e.Protocols[0].Metadata)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", protocol.ErrInconsistentProtocol, err)
	}
	c := &change{g: g, now: now, epoch: g.epoch, reason: e.Reason, matches: e.Matches}
	m, err := e.find(c, id)
	if err != nil {
		return nil, err
	}
	if c.fresh(m.id) && c.replaced == nil && len(sub.Owned) > 0 {
		// It was removed without its notice. Kafka accepts it, although another member may own the
		// partitions that it still reads.
		return nil, protocol.ErrUnknownMember
	}
	return e.update(c, m, sub)
}

// speaks reports whether all members of the classic protocol support one of the protocols.
func (g *Group) speaks(protocolType string, ps []assignor.Protocol) bool {
	if protocolType != protocol.ProtocolTypeConsumer {
		return false
	}
	return slices.ContainsFunc(ps, func(p assignor.Protocol) bool {
		for _, m := range g.members {
			if m.Classic != nil && !slices.ContainsFunc(m.Classic.Protocols, func(o offsets.ClassicProtocol) bool { return o.Name == p.Name }) {
				return false
			}
		}
		return true
	})
}

// find returns the sender of e, which may be new.
func (e EventJoin) find(c *change, id string) (*member, error) {
	g := c.g
	if e.InstanceID != "" {
		switch of, known := g.static[e.InstanceID]; {
		case e.MemberID == "" && known:
			return c.replace(g.members[of], id, classicMember)
		case e.MemberID != "" && !known:
			return nil, protocol.ErrUnknownMember
		case e.MemberID != "" && of != id:
			return nil, protocol.ErrFencedInstance
		}
	}
	if m := g.members[id]; m != nil {
		return m, nil
	}
	return &member{id: id, assigned: []held{}, revoking: []held{}}, nil
}

func (e EventJoin) update(c *change, before *member, sub assignor.Subscription) (*protocol.JoinResponse, error) {
	g, m := c.g, *before
	rebalance := e.RebalanceTimeout
	if rebalance <= 0 {
		rebalance = e.SessionTimeout
	}
	m.subscription = classicSubscription(before.subscription, sub, classic.Transfer{InstanceID: e.InstanceID, ClientID: e.ClientID, ClientHost: e.ClientHost,
		Session: e.SessionTimeout, Rebalance: rebalance, Protocols: e.Protocols})
	if err := c.subscribe(before, &m); err != nil {
		return nil, err
	}
	target, err := c.assign(&m)
	if err != nil {
		return nil, err
	}
	next := c.reconcile(&m, target, g.topics.byNames(sub.Owned), true)
	e.timers(c, m.id, rebalance)
	if c.replaced != nil && c.replaced.Classic == nil {
		members := slices.DeleteFunc(g.inOrder(), func(o *member) bool { return o == c.replaced })
		members = append(members, next)
		// Kafka's classic group is always stable: partitions that a member waits for stay
		// unassigned.
		behind := slices.ContainsFunc(members, func(o *member) bool { return !o.reconciledTo(c.epoch) })
		g.downgrade(c.epoch, members, behind)
	}
	return &protocol.JoinResponse{Generation: next.epoch, MemberID: m.id, ProtocolType: protocol.ProtocolTypeConsumer, ProtocolName: e.Protocols[0].Name}, nil
}

// timers restarts the member's session and its deadline to sync, which is its rebalance timeout.
func (e EventJoin) timers(c *change, id string, rebalance time.Duration) {
	g, session, sync := c.g, c.now.Add(e.SessionTimeout), c.now.Add(rebalance)
	g.after = append(g.after, func() {
		g.sessions[id], g.syncs[id] = session, sync
		delete(g.joins, id)
		delete(g.revokes, id)
	})
	g.wake(session)
	g.wake(sync)
}

// EventSync is a SyncRequest of a member of the classic protocol. The reply is a
// protocol.SyncResponse. Kafka: classicGroupSyncToConsumerGroup.
type EventSync struct {
	*protocol.SyncRequest
	Topics *Topics
	To     machine.Ticket
}

// Refuse returns the reply of a group of another kind: the caller retries with the event of that
// kind.
func (e EventSync) Refuse() machine.Reply {
	return machine.Reply{To: e.To, Err: machine.ErrNotAvailable}
}

func (e EventSync) step(g *Group, now time.Time) {
	g.see(e.Topics)
	m, err := g.classicMember(e.MemberID, e.InstanceID, e.Generation)
	switch {
	case err != nil:
	case !e.Fits(protocol.ProtocolTypeConsumer, m.Classic.Protocols[0].Name):
		err = protocol.ErrInconsistentProtocol
	case g.outdated(m) && m.state != unrevoked:
		g.mustJoin(m, now)
		err = protocol.ErrRebalanceInProgress
	}
	if err != nil {
		g.reply(e.To, nil, err)
		return
	}
	delete(g.syncs, m.id)
	g.alive(m.id, now, m.classicSession())
	g.reply(e.To, protocol.SyncResponse{ProtocolType: protocol.ProtocolTypeConsumer, ProtocolName: m.Classic.Protocols[0].Name, Assignment: g.assignmentData(m)}, nil)
}

// classicHeartbeat returns ErrRebalanceInProgress to a member of the classic protocol that must
// revoke partitions or can get some. Kafka: classicGroupHeartbeatToConsumerGroup.
func (g *Group) classicHeartbeat(now time.Time, e classic.EventHeartbeat) error {
	m, err := g.classicMember(e.MemberID, e.InstanceID, e.Generation)
	if err != nil {
		return err
	}
	g.alive(m.id, now, m.classicSession())
	if g.outdated(m) || m.state == unrevoked || m.state == unreleased && !g.awaitsOthers(m) {
		g.mustJoin(m, now)
		return protocol.ErrRebalanceInProgress
	}
	return nil
}

// outdated reports whether a member of the classic protocol should join again: it has not reached
// the last target. A target that waits for the assignment interval is computed at a heartbeat of a
// member of the newer protocol; joining before would be useless. Without such members, joining
// computes it. Kafka does not notify members of the classic protocol then, and they miss the
// change.
func (g *Group) outdated(m *member) bool {
	if m.epoch < g.assignmentEpoch {
		return true
	}
	if m.epoch == g.epoch {
		return false
	}
	for _, o := range g.members {
		if o.Classic == nil && o.epoch != leaveStaticEpoch {
			return false
		}
	}
	return true
}

// classicMember returns a member of the classic protocol in a generation.
func (g *Group) classicMember(id, instance string, generation int32) (*member, error) {
	if instance != "" {
		switch of, known := g.static[instance]; {
		case !known:
			return nil, protocol.ErrUnknownMember
		case of != id:
			return nil, protocol.ErrFencedInstance
		}
	}
	m := g.members[id]
	switch {
	case m == nil || m.Classic == nil || len(m.Classic.Protocols) == 0:
		return nil, protocol.ErrUnknownMember
	case m.epoch != generation:
		return nil, protocol.ErrIllegalGeneration
	}
	return m, nil
}

// mustJoin starts a member's deadline to join again, unless it is running.
func (g *Group) mustJoin(m *member, now time.Time) {
	if _, told := g.joins[m.id]; !told {
		g.joins[m.id] = now.Add(time.Duration(m.RebalanceTimeoutMs) * time.Millisecond)
		g.wake(g.joins[m.id])
	}
}

// awaitsOthers reports whether other members own partitions of a member's target.
func (g *Group) awaitsOthers(m *member) bool {
	return slices.ContainsFunc(g.target[m.id], func(p partition) bool {
		_, own := has(m.assigned, p)
		return !own && g.owner[p] != ""
	})
}
