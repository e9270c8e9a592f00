package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// EventLeave is a LeaveRequest. The reply is a []error, one per member named.
type EventLeave struct {
	Members []protocol.LeaveMember
	To      machine.Ticket
}

func (e EventLeave) step(g *Group, now time.Time) {
	errs := make([]error, len(e.Members))
	pending, left := false, false
	for i, lm := range e.Members {
		if _, ok := g.pending[lm.MemberID]; ok && lm.InstanceID == "" {
			remove(g, g.pending, lm.MemberID)
			pending = true
			continue
		}
		id := lm.MemberID
		if id == "" { // removal by an administrator
			id = g.static[lm.InstanceID]
		}
		m, err := g.check(id, lm.InstanceID)
		if err != nil {
			errs[i] = err
			continue
		}
		kind, reason := protocol.LeftBecause(lm.Reason)
		if lm.MemberID == "" {
			kind = protocol.CauseRemoved
		}
		g.leaves(m, kind, reason)
		left = true
	}
	if pending || left {
		g.departed(now, left)
	}
	g.reply(e.To, errs, nil)
}

// leaves removes a member that a request names.
func (g *Group) leaves(m *member, kind protocol.CauseKind, reason string) {
	g.note(kind, m, 0, reason)
	if g.state == protocol.PreparingRebalance && !m.joining {
		g.history.WaitedFor(m.id)
	}
	g.drop(m, protocol.ErrUnknownMember)
}

// departed runs after members have left, or only pending ids if member is false. It completes the
// join phase if all others have joined, or begins a rebalance if a member has left.
func (g *Group) departed(now time.Time, member bool) {
	switch {
	case g.state == protocol.PreparingRebalance:
		g.completeIfAllJoined(now)
	case member && (g.state == protocol.Stable || g.state == protocol.CompletingRebalance):
		g.prepareRebalance(now)
	}
}

// EventCancel reports that the caller of a join or sync has stopped waiting. A member without any
// response yet has no id: it is removed. Others stay until their session ends.
type EventCancel struct{ Ticket machine.Ticket }

func (e EventCancel) step(g *Group, now time.Time) {
	for _, m := range g.members {
		switch {
		case m.joining && m.joinTicket == e.Ticket:
			g.edit(m)
			m.joinTicket = 0
			if m.isNew {
				g.note(protocol.CauseLeft, m, 0, "its client does not wait for the join any more")
				g.drop(m, protocol.ErrUnknownMember)
				g.departed(now, true)
			}
			return
		case m.syncing && m.syncTicket == e.Ticket:
			g.edit(m)
			m.syncTicket = 0
			return
		}
	}
}
