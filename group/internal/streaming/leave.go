package streaming

import (
	"math"
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// remove removes members. The group's epoch increases by one for each of them. The records are in
// Kafka's order, which matters.
func (g *Group) remove(gone ...*member) {
	for _, m := range gone {
		for _, t := range []offsets.KeyType{offsets.KeyStreamsCurrentAssignment, offsets.KeyStreamsTargetMember, offsets.KeyStreamsMember} {
			g.put(t, m.id, nil)
		}
	}
	if len(gone) > 0 {
		g.putGroup(g.epoch + int32(len(gone)))
	}
}

// some returns the first members of all, as many as one step may remove.
func (g *Group) some(all []*member) []*member {
	return all[:g.cfg.AtOnce(g.ID(), len(all), func(i int) string { return all[i].id })]
}

// tick removes members whose session has ended, or that missed a deadline to revoke tasks. It
// computes a target that has waited for more members.
func (g *Group) tick(now time.Time) {
	var gone []*member
	g.wakeAt = time.Time{}
	for _, m := range g.inOrder() {
		session, lives := g.sessions[m.id]
		revoke, must := g.revokes[m.id]
		if lives && !now.Before(session) || must && !now.Before(revoke.at) && m.epoch == revoke.epoch {
			gone = append(gone, m)
			continue
		}
		g.wake(session)
		if must && now.Before(revoke.at) {
			g.wake(revoke.at)
		}
	}
	if some := g.some(gone); len(some) < len(gone) {
		gone = some
		g.wake(now) // for the others
	}
	for _, m := range gone {
		g.note(g.overdue(m, now), m)
	}
	g.remove(gone...)
	switch {
	case g.delayed.IsZero():
	case now.Before(g.delayed):
		g.wake(g.delayed)
	default:
		g.after = append(g.after, func() { g.delayed = time.Time{} })
		if len(gone) == 0 && len(g.members) > 0 && g.topics != nil && g.configured != nil && g.epoch > g.assignmentEpoch {
			g.compute(now, g.members, g.configured, g.epoch)
		}
	}
}

// overdue returns why a member is removed whose deadline has passed.
func (g *Group) overdue(m *member, now time.Time) protocol.Cause {
	if !now.Before(g.sessions[m.id]) {
		return protocol.Cause{Kind: protocol.CauseSessionExpired, After: g.settings().Session}
	}
	g.History().WaitedFor(m.id)
	return protocol.Cause{Kind: protocol.CauseNotRevoked, After: time.Duration(max(0, m.RebalanceTimeoutMs)) * time.Millisecond}
}

// loaded restarts the sessions of all members. The epoch of endpoints is not stored. It starts at
// the time in seconds, above the epochs of any earlier coordinator, so that members receive the
// endpoints again. In Kafka they may not receive them.
func (g *Group) loaded(now time.Time) {
	g.endpoints = int32(now.Unix() & math.MaxInt32)
	session := g.settings().Session
	for _, m := range g.inOrder() {
		g.alive(m.id, now, session)
		if m.state == unrevoked {
			g.mustRevoke(m, now)
		}
	}
}

// mustRevoke starts a member's deadline to revoke tasks.
func (g *Group) mustRevoke(m *member, now time.Time) {
	r := revocation{now.Add(time.Duration(max(0, m.RebalanceTimeoutMs)) * time.Millisecond), m.epoch}
	g.revokes[m.id] = r
	g.wake(r.at)
}
