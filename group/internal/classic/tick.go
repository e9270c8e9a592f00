package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
)

// EventTick passes the time. It expires sessions, pending ids and rebalance phases.
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

// expireSessions removes members that have not been heard of, and ids that were never used. Who
// waits for us is alive.
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
	gone := false
	for _, m := range g.inOrder() {
		if m.mustSync {
			g.drop(m, protocol.ErrUnknownMember)
			gone = true
		}
	}
	if gone {
		g.departed(now, true)
	}
}

// nextDeadline returns the earliest moment at which a tick could do something.
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
