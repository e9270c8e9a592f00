package classic

import (
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// A Transfer is a member that moves between a classic group and one of another kind.
type Transfer struct {
	ID, InstanceID, ClientID, ClientHost string
	Session, Rebalance                   time.Duration
	Protocols                            []assignor.Protocol // best first
	Assignment                           []byte              // in the format of the group's protocol
}

// Transfers returns the members, in the order in which they joined. The bytes are read-only.
func (g *Group) Transfers() []Transfer {
	var out []Transfer
	for _, m := range g.inOrder() {
		out = append(out, Transfer{ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost,
			Session: m.session, Rebalance: m.rebalance, Protocols: m.protocols, Assignment: m.assignment})
	}
	return out
}

// ProtocolType returns the type of the group's members, "consumer" for consumers; "" if it never
// had any.
func (g *Group) ProtocolType() string { return g.protocolType }

// Parked returns a reply with err to every waiting join and sync. It does not change the group.
func (g *Group) Parked(err error) (replies []machine.Reply) {
	for _, m := range g.inOrder() {
		if m.joining && m.joinTicket != 0 {
			replies = append(replies, machine.Reply{To: m.joinTicket, Err: err})
		}
		if m.syncing && m.syncTicket != 0 {
			replies = append(replies, machine.Reply{To: m.syncTicket, Err: err})
		}
	}
	return replies
}

// A Downgrade is the state that a classic group takes over from a group of another kind.
type Downgrade struct {
	Generation int32
	Members    []Transfer // at least one

	// Rebalance is set if the members must join again at once: a member has left, or some have not
	// reached their target. If not, a static member has replaced itself, and all keep their
	// assignment.
	Rebalance bool
}

// NewFrom returns a group of consumers from a Downgrade, and its record. on is as for NewOn. If the
// members must join again, the record names no leader. The next coordinator then makes them join
// too (EventLoaded).
func NewFrom(on *Committed, cfg *Config, now time.Time, d *Downgrade) (*Group, offsets.Record) {
	g := NewOn(on, cfg)
	for _, t := range d.Members {
		g.joined++
		m := &member{id: t.ID, instanceID: t.InstanceID, clientID: t.ClientID, clientHost: t.ClientHost, seq: g.joined,
			session: t.Session, rebalance: t.Rebalance, protocols: t.Protocols, assignment: t.Assignment}
		g.members[m.id] = m
		if m.instanceID != "" {
			g.static[m.instanceID] = m.id
		}
		g.alive(m, now)
	}
	g.persisted, g.state, g.stateMs = true, protocol.Stable, now.UnixMilli()
	g.generation, g.protocolType, g.leader = d.Generation, protocol.ProtocolTypeConsumer, d.Members[0].ID
	g.protocol = g.vote()
	g.persist(now, (*member).currentAssignment)
	record := g.eff.Records[0]
	g.eff = Effects{}
	if d.Rebalance {
		record.Group.Leader = ""
		g.prepareRebalance(now)
	}
	return g, record
}
