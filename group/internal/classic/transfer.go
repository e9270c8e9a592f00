package classic

import (
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/group/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// A Transfer is a member on its way between a classic group and one of another kind.
type Transfer struct {
	ID, InstanceID, ClientID, ClientHost string
	Session, Rebalance                   time.Duration
	Protocols                            []assignor.Protocol // best first
	Assignment                           []byte              // in the format of the group's protocol
}

// Transfers returns the members, in the order in which they joined. The bytes must not be written
// to.
func (g *Group) Transfers() []Transfer {
	var out []Transfer
	for _, m := range g.inOrder() {
		out = append(out, Transfer{ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost,
			Session: m.session, Rebalance: m.rebalance, Protocols: m.protocols, Assignment: m.assignment})
	}
	return out
}

// ProtocolType returns what kind of members the group has, "consumer" for consumers; "": none yet.
func (g *Group) ProtocolType() string { return g.protocolType }

// Parked returns an answer to every join and sync that waits. The group stays as it is.
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

// A Downgrade is what becomes a classic group: members of one of another kind.
type Downgrade struct {
	Generation int32
	Members    []Transfer // at least one

	// Rebalance says that the members must join again, at once: somebody has gone, or some have not
	// got yet what they were to have. If not, a static member has taken over from itself, and all
	// go on with what they had.
	Rebalance bool
}

// NewFrom returns a group of consumers that came from one of another kind, and the record that
// makes it. on is as for NewOn. The record names no leader if the members must join again: the next
// coordinator has them do so (EventLoaded).
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
