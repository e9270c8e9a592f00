package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
)

// EventTick reports the time. It expires sessions, pending ids and rebalance phases.
type EventTick struct{}

func (EventTick) step(g *Group, now time.Time) {
	g.expireSessions(now)
	if due(g.joinDeadline, now) {
		g.joinTimeout(now)
	}
	if due(g.syncDeadline, now) {
		g.syncTimeout(now)
	}
	g.wakeAt = g.nextDeadline()
}

// expireSessions removes members whose session has expired, and pending ids that were not used in
// time. Members with a parked request do not expire.
func (g *Group) expireSessions(now time.Time) {
	pending, gone := false, false
	for id, deadline := range g.pending {
		if due(deadline, now) {
			remove(g, g.pending, id)
			pending = true
		}
	}
	for _, m := range g.inOrder() {
		if !m.waiting() && due(m.deadline, now) {
			silent := m.session
			if m.isNew {
				silent = newMemberTimeout
			}
			g.note(protocol.CauseSessionExpired, m, silent, "")
			if g.state == protocol.PreparingRebalance {
				g.history.WaitedFor(m.id)
			}
			g.drop(m, protocol.ErrUnknownMember)
			gone = true
		}
	}
	if pending || gone {
		g.departed(now, gone)
	}
}

// syncTimeout removes the members that did not fetch their assignment within the rebalance timeout,
// the group leader included.
func (g *Group) syncTimeout(now time.Time) {
	g.syncDeadline = time.Time{}
	gone, timeout := false, g.rebalanceTimeout()
	for _, m := range g.inOrder() {
		if m.mustSync {
			g.note(protocol.CauseNotSynced, m, timeout, "")
			g.drop(m, protocol.ErrUnknownMember)
			gone = true
		}
	}
	if gone {
		g.departed(now, true)
	}
}

// nextDeadline returns the earliest deadline of the group; zero if there is none.
func (g *Group) nextDeadline() time.Time {
	next := time.Time{}
	consider := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, t := range g.pending {
		consider(t)
	}
	for _, m := range g.members {
		if !m.waiting() {
			consider(m.deadline)
		}
	}
	consider(g.joinDeadline)
	consider(g.syncDeadline)
	return next
}
