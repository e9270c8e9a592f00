package classic

import (
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// EventCreate creates a group. The group stays even if its first join is rejected, as in Kafka.
type EventCreate struct {
	// Anew is set if the group had another kind. It may have offsets.
	Anew bool
}

func (e EventCreate) step(g *Group, now time.Time) {
	if g.state == protocol.Dead || e.Anew && !g.persisted {
		g.persist(now, nil)
	}
}

// EventJoin is a JoinRequest that passed the checks that need no group. The reply is a
// JoinResponse; it waits for the end of the join phase.
type EventJoin struct {
	*protocol.JoinRequest
	NewID string // member id for a member without one
	To    machine.Ticket
}

func (e EventJoin) step(g *Group, now time.Time) {
	switch {
	case g.state == protocol.Dead:
		g.reply(e.To, nil, machine.ErrNotAvailable)
	case !g.hasRoom(e.MemberID):
		remove(g, g.pending, e.MemberID)
		m := g.members[e.MemberID]
		if m != nil {
			g.note(protocol.CauseFull, m, 0, "")
			g.drop(m, protocol.ErrGroupMaxSize)
		}
		g.departed(now, m != nil)
		g.reply(e.To, nil, protocol.ErrGroupMaxSize)
	case !g.supports(e.ProtocolType, e.Protocols):
		g.reply(e.To, nil, protocol.ErrInconsistentProtocol)
	case e.MemberID == "":
		e.joinNew(g, now)
	default:
		e.joinKnown(g, now)
	}
}

// hasRoom reports whether the group's size allows the join. Pending ids do not count.
func (g *Group) hasRoom(memberID string) bool {
	m := g.members[memberID]
	switch {
	case g.cfg.MaxSize == 0 || g.state == protocol.Empty:
		return true
	case g.state == protocol.PreparingRebalance:
		return m != nil && m.joining || g.awaitingJoin() < g.cfg.MaxSize
	}
	return m != nil || len(g.members) < g.cfg.MaxSize
}

func (g *Group) awaitingJoin() (n int) {
	for _, m := range g.members {
		if m.joining {
			n++
		}
	}
	return n
}

// supports reports whether every member supports one of the protocols. For a group without members
// any protocol is enough.
func (g *Group) supports(protocolType string, ps []assignor.Protocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(ps) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	for _, p := range ps {
		if g.allSupport(p.Name) {
			return true
		}
	}
	return false
}

func (g *Group) allSupport(protocol string) bool {
	for _, m := range g.members {
		if !m.supports(protocol) {
			return false
		}
	}
	return true
}

func (e EventJoin) joinNew(g *Group, now time.Time) {
	switch old, known := g.static[e.InstanceID]; {
	case e.InstanceID != "" && known:
		e.replaceStatic(g, now, g.members[old])
	case e.InstanceID == "" && e.RequireMemberID:
		put(g, g.pending, e.NewID, now.Add(e.SessionTimeout))
		g.wake(g.pending[e.NewID])
		g.reply(e.To, nil, &protocol.MemberIDRequiredError{MemberID: e.NewID})
	default:
		e.add(g, now, e.NewID)
	}
}

func (e EventJoin) joinKnown(g *Group, now time.Time) {
	if _, ok := g.pending[e.MemberID]; ok && e.InstanceID == "" {
		e.add(g, now, e.MemberID)
		return
	}
	m, err := g.check(e.MemberID, e.InstanceID)
	if err != nil {
		g.reply(e.To, nil, err)
		return
	}
	unchanged := m.sameProtocols(e.Protocols)
	switch {
	case g.state == protocol.CompletingRebalance && unchanged, g.state == protocol.Stable && unchanged && g.leader != m.id:
		// The member missed the response, or repeats its join: there is no reason to rebalance.
		e.park(g, m)
		g.alive(m, now)
		g.answerJoin(m, g.joinResponse(m), nil)
	case g.state == protocol.Empty:
		g.reply(e.To, nil, protocol.ErrUnknownMember)
	default:
		if g.state != protocol.PreparingRebalance {
			g.note(e.causeOfRejoin(g, m), m, 0, e.Reason)
		}
		e.update(g, m)
		e.joined(g, m, now)
	}
}

// joined begins a rebalance with the parked join of m, or ends one for which others waited.
func (e EventJoin) joined(g *Group, m *member, now time.Time) {
	waited := g.state == protocol.PreparingRebalance && g.awaitingJoin() > 1
	g.rebalanceOrComplete(now)
	if waited && g.state == protocol.CompletingRebalance {
		g.history.WaitedFor(m.id)
	}
}

// park makes the join of m wait. An earlier parked join of m, whose client must have disconnected,
// receives ErrRebalanceInProgress.
func (e EventJoin) park(g *Group, m *member) {
	g.answerJoin(m, nil, protocol.ErrRebalanceInProgress)
	g.edit(m)
	m.joining, m.joinTicket = true, e.To
}

// update takes over the protocols and timeouts of the request, and parks the join.
func (e EventJoin) update(g *Group, m *member) {
	g.edit(m)
	m.protocols = e.Protocols
	m.session, m.rebalance = e.SessionTimeout, e.rebalanceTimeout()
	e.park(g, m)
}

func (e EventJoin) rebalanceTimeout() time.Duration {
	if e.RebalanceTimeout > 0 {
		return e.RebalanceTimeout
	}
	return e.SessionTimeout
}

// newMemberTimeout bounds the wait of a new member in its first join, during which it has no id to
// send heartbeats with. Kafka: group.coordinator's classicGroupNewMemberJoinTimeoutMs.
const newMemberTimeout = 5 * time.Minute

// add adds a new member and begins a rebalance, or completes the present one.
func (e EventJoin) add(g *Group, now time.Time, id string) {
	if len(g.members) == 0 {
		g.protocolType = e.ProtocolType
	}
	if g.leader == "" {
		g.leader = id
	}
	g.joined++
	m := &member{id: id, instanceID: e.InstanceID, clientID: e.ClientID, clientHost: e.ClientHost, seq: g.joined, isNew: true}
	remove(g, g.pending, id)
	put(g, g.members, id, m)
	if m.instanceID != "" {
		put(g, g.static, m.instanceID, id)
	}
	g.note(protocol.CauseJoined, m, 0, e.Reason)
	e.update(g, m)
	m.deadline = now.Add(newMemberTimeout) // it has no id yet to send heartbeats with
	g.wake(m.deadline)
	if g.state == protocol.PreparingRebalance && g.initial {
		g.newcomer = true
	}
	e.joined(g, m, now)
}

// replaceStatic replaces old, a static member, by the sender of a join with the same instance id.
// old is fenced (KIP-345).
func (e EventJoin) replaceStatic(g *Group, now time.Time, old *member) {
	wasLeader := g.leader
	g.answerJoin(old, nil, protocol.ErrFencedInstance)
	g.answerSync(old, nil, protocol.ErrFencedInstance)
	m := *old
	m.id = e.NewID
	remove(g, g.members, old.id)
	put(g, g.members, m.id, &m)
	put(g, g.static, m.instanceID, m.id)
	if g.leader == old.id {
		g.leader = m.id
	}
	m.clientID, m.clientHost = e.ClientID, e.ClientHost
	e.update(g, &m)
	g.alive(&m, now)
	switch {
	case g.state == protocol.Stable && g.vote() == g.protocol && !old.owesJoin(g.protocol):
		// Nothing changes for the others: only the new id is stored.
		r := g.joinResponse(&m)
		if r.SkipAssignment = e.SkipAssignment && g.leader == m.id; !e.SkipAssignment {
			// a client before KIP-814 that is named as leader would assign again
			r.Members, r.Leader = nil, wasLeader
		}
		g.answerJoin(&m, r, nil)
		g.persist(now, (*member).currentAssignment)
		return
	case g.state == protocol.PreparingRebalance:
		g.note(protocol.CauseStaticReplaced, &m, 0, e.Reason)
		e.joined(g, &m, now)
	default:
		g.note(protocol.CauseStaticReplaced, &m, 0, e.Reason)
		g.prepareRebalance(now)
	}
	if g.persisted && !m.isNew {
		g.persistID(now)
	}
}

// owesJoin reports whether the member is between the rounds of a cooperative rebalance (KIP-429):
// it must revoke partitions and then join again. A replacement owns no partitions, so it would not
// join again, and these would stay unassigned until the next rebalance. Kafka does not check this.
func (m *member) owesJoin(name string) bool {
	said, err := assignor.ParseSubscription(m.metadata(name))
	if err != nil || len(said.Owned) == 0 {
		return false
	}
	share, err := assignor.ParseAssignment(m.assignment)
	keeps := make(map[record.TopicPartition]bool, len(share.Partitions))
	for _, tp := range share.Partitions {
		keeps[tp] = true
	}
	return err == nil && slices.ContainsFunc(said.Owned, func(tp record.TopicPartition) bool { return !keeps[tp] })
}

// joinResponse describes the present generation to m.
func (g *Group) joinResponse(m *member) *protocol.JoinResponse {
	r := &protocol.JoinResponse{Generation: g.generation, MemberID: m.id, Leader: g.leader, ProtocolType: g.protocolType, ProtocolName: g.protocol}
	if m.id == g.leader {
		for _, other := range g.inOrder() {
			r.Members = append(r.Members, assignor.JoinMember{MemberID: other.id, InstanceID: other.instanceID, Metadata: other.metadata(g.protocol)})
		}
	}
	return r
}
