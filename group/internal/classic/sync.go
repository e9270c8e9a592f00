package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// EventSync is a SyncRequest. The reply is a SyncResponse; it waits for the group leader's
// assignments.
type EventSync struct {
	*protocol.SyncRequest
	To machine.Ticket
}

func (e EventSync) step(g *Group, now time.Time) {
	m, err := g.checkGeneration(e.MemberID, e.InstanceID, e.Generation)
	switch {
	case err != nil:
	case !e.Fits(g.protocolType, g.protocol):
		err = protocol.ErrInconsistentProtocol
	case g.state == protocol.PreparingRebalance:
		err = protocol.ErrRebalanceInProgress
	case g.state != protocol.CompletingRebalance && g.state != protocol.Stable:
		err = protocol.ErrUnknownMember
	}
	if err != nil {
		g.reply(e.To, nil, err)
		return
	}
	// an earlier parked sync, whose client must have disconnected
	g.answerSync(m, nil, protocol.ErrRebalanceInProgress)
	g.edit(m)
	m.syncing, m.syncTicket = true, e.To
	g.synced(m)
	switch {
	case g.state == protocol.Stable:
		g.answerSync(m, g.syncResponse(m.assignment), nil)
		g.alive(m, now)
	case m.id == g.leader:
		e.distribute(g, now)
	}
}

// synced records that m has sent its sync. After the last member's sync there is no sync deadline.
func (g *Group) synced(m *member) {
	g.edit(m)
	m.mustSync = false
	for _, other := range g.members {
		if other.mustSync {
			return
		}
	}
	g.syncDeadline = time.Time{}
}

// distribute stores the group leader's assignments, which makes the group Stable, and answers the
// parked syncs. Members without an entry get an empty assignment.
func (e EventSync) distribute(g *Group, now time.Time) {
	share := func(m *member) []byte { return e.Assignments[m.id] }
	g.persist(now, share)
	for _, m := range g.inOrder() {
		if m.syncing {
			g.answerSync(m, g.syncResponse(share(m)), nil)
			g.alive(m, now)
		}
	}
}

func (g *Group) syncResponse(assignment []byte) *protocol.SyncResponse {
	return &protocol.SyncResponse{ProtocolType: g.protocolType, ProtocolName: g.protocol, Assignment: assignment}
}
