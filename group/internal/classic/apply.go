package classic

import (
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// persist emits the record that describes the group with the given assignments.
func (g *Group) persist(now time.Time, assignment func(*member) []byte) {
	g.emitValue(g.value(now, assignment))
}

// persistID emits a record with the new id of a static member during a rebalance. It changes
// nothing else. After a failover, a coordinator without this record would fence the member. The
// record names no group leader, so that the next coordinator makes all members join again
// (EventLoaded). It omits members whose first join has no response yet.
func (g *Group) persistID(now time.Time) {
	v := g.value(now, (*member).currentAssignment)
	v.Members = slices.DeleteFunc(v.Members, func(m offsets.MemberValue) bool { return g.members[m.ID].isNew })
	v.Leader, g.idOnly = "", true
	g.emitValue(v)
}

func (g *Group) emitValue(v *offsets.GroupValue) {
	g.emit(offsets.Record{Key: offsets.Key{Type: offsets.KeyGroup, Group: g.id}, Group: v})
}

func (g *Group) value(now time.Time, assignment func(*member) []byte) *offsets.GroupValue {
	v := &offsets.GroupValue{ProtocolType: g.protocolType, Generation: g.generation, Protocol: g.protocol, Leader: g.leader, StateMs: now.UnixMilli()}
	for _, m := range g.inOrder() {
		v.Members = append(v.Members, offsets.MemberValue{
			ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeoutMs: int32(m.rebalance.Milliseconds()), SessionTimeoutMs: int32(m.session.Milliseconds()),
			Subscription: m.metadata(g.protocol), Assignment: assignment(m),
		})
	}
	return v
}

func (m *member) currentAssignment() []byte { return m.assignment }

// Apply is the only function that changes durable state. It runs for the records of a Step and at
// recovery. Other groups' keys, and types other than KeyOffset and KeyGroup, are ignored.
func (g *Group) Apply(r offsets.Record) {
	if r.Key.Group != g.id {
		return
	}
	switch r.Key.Type {
	case offsets.KeyOffset:
		g.Committed.Apply(r)
	case offsets.KeyGroup:
		if r.Group != nil {
			g.adopt(r.Group)
		} else {
			g.forget()
		}
	default:
		return
	}
	g.existence()
}

// existence makes a group without members Empty if it has a stored record or an offset, else Dead.
// A Dead group drops its pending member ids.
func (g *Group) existence() {
	if len(g.members) == 0 && (g.state == protocol.Dead || g.state == protocol.Empty) {
		g.state = protocol.Empty
		if !g.persisted && len(g.offsets) == 0 && len(g.txns) == 0 {
			g.state = protocol.Dead
			clear(g.pending)
		}
	}
}

// adopt sets the group's state to v. Live members keep their votes, deadlines and parked requests.
// Other members are replaced by their value in v.
func (g *Group) adopt(v *offsets.GroupValue) {
	g.persisted = true
	if g.idOnly {
		g.idOnly = false
		return
	}
	g.generation, g.protocolType, g.protocol, g.leader, g.stateMs = v.Generation, v.ProtocolType, v.Protocol, v.Leader, v.StateMs
	members := make(map[string]*member, len(v.Members))
	clear(g.static)
	for _, mv := range v.Members {
		m := g.members[mv.ID]
		if m == nil || !m.live() {
			g.joined++
			m = &member{id: mv.ID, instanceID: mv.InstanceID, clientID: mv.ClientID, clientHost: mv.ClientHost, seq: g.joined,
				session:   time.Duration(mv.SessionTimeoutMs) * time.Millisecond,
				rebalance: time.Duration(mv.RebalanceTimeoutMs) * time.Millisecond,
				protocols: []assignor.Protocol{{Name: v.Protocol, Metadata: mv.Subscription}}}
		}
		m.assignment = mv.Assignment
		members[m.id] = m
		if m.instanceID != "" {
			g.static[m.instanceID] = m.id
		}
	}
	g.members = members
	g.state = protocol.Stable
	if len(members) == 0 {
		g.state = protocol.Empty
	}
}

// forget applies the group's tombstone: it is the reverse of adopt. Offsets have their own
// tombstones.
func (g *Group) forget() {
	g.persisted = false
	g.generation, g.protocolType, g.protocol, g.leader, g.stateMs = 0, "", "", "", -1
	clear(g.members)
	clear(g.static)
	g.state = protocol.Dead
}

// EventLoaded ends a recovery. Members get a full session. Members of an earlier run of this
// process are removed.
type EventLoaded struct{}

func (EventLoaded) step(g *Group, now time.Time) {
	gone := false
	for _, m := range g.inOrder() {
		if strings.HasPrefix(m.clientHost, InProcess) && m.clientHost != g.cfg.Process {
			g.note(protocol.CauseCoordinatorLoaded, m, 0, "")
			g.drop(m, protocol.ErrUnknownMember)
			gone = true
			continue
		}
		g.alive(m, now)
	}
	g.departed(now, gone)
	if g.state == protocol.Stable && g.leader == "" && len(g.members) > 0 { // see NewFrom
		g.history.Note(protocol.Cause{Kind: protocol.CauseCoordinatorLoaded})
		g.leader = g.inOrder()[0].id
		g.prepareRebalance(now)
	}
}
