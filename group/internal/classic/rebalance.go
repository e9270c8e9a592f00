package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
)

// rebalanceOrComplete runs after a join. It begins a rebalance or, during a join phase, ends that
// phase if all members have joined. The rebalance timer continues if the phase does not end.
func (g *Group) rebalanceOrComplete(now time.Time) {
	if g.state == protocol.PreparingRebalance {
		g.completeIfAllJoined(now)
		return
	}
	g.prepareRebalance(now)
}

// prepareRebalance enters PreparingRebalance from any other state.
func (g *Group) prepareRebalance(now time.Time) {
	if g.state == protocol.Stable {
		g.history.Hold(g)
	}
	if g.state == protocol.CompletingRebalance {
		for _, m := range g.inOrder() {
			g.edit(m)
			m.assignment = nil
			if m.syncing {
				g.alive(m, now)
				g.answerSync(m, nil, protocol.ErrRebalanceInProgress)
			}
		}
	}
	g.syncDeadline = time.Time{}
	g.initial = g.state == protocol.Empty
	g.newcomer = false
	g.state = protocol.PreparingRebalance
	timeout, delay := g.rebalanceTimeout(), g.cfg.InitialRebalanceDelay
	switch {
	case !g.initial:
		g.setJoinDeadline(now.Add(timeout))
		g.completeIfAllJoined(now)
	case delay > 0:
		g.remaining = max(timeout-delay, 0)
		g.setJoinDeadline(now.Add(delay))
	default: // a client with a pending id joins in the next rebalance
		g.completeJoin(now)
	}
}

func (g *Group) setJoinDeadline(t time.Time) {
	g.joinDeadline = t
	g.wake(t)
}

// rebalanceTimeout returns the longest rebalance timeout of a member.
func (g *Group) rebalanceTimeout() (d time.Duration) {
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

// completeIfAllJoined ends the join phase if every member has joined and no member id is pending.
// It does not shorten the initial delay.
func (g *Group) completeIfAllJoined(now time.Time) {
	if g.state == protocol.PreparingRebalance && !g.initial && len(g.pending) == 0 && g.awaitingJoin() == len(g.members) {
		g.completeJoin(now)
	}
}

// joinTimeout handles the end of the rebalance timer. It extends the initial delay if a member
// joined during it.
func (g *Group) joinTimeout(now time.Time) {
	if g.initial && g.newcomer && g.remaining > 0 {
		delay := min(g.cfg.InitialRebalanceDelay, g.remaining)
		g.remaining = max(g.remaining-g.cfg.InitialRebalanceDelay, 0)
		g.newcomer = false
		g.setJoinDeadline(now.Add(delay))
		return
	}
	g.completeJoin(now)
}

// completeJoin ends the join phase with the members that joined. Static members stay even if they
// did not join. If no member joined, all get another rebalance timeout.
func (g *Group) completeJoin(now time.Time) {
	if len(g.members) > 0 && g.awaitingJoin() == 0 {
		g.initial = false
		// at least a second: a timeout of 0 must not make the timer spin
		g.setJoinDeadline(now.Add(max(g.rebalanceTimeout(), time.Second)))
		return
	}
	g.joinDeadline, g.initial = time.Time{}, false
	timeout := g.rebalanceTimeout()
	for _, m := range g.inOrder() {
		if !m.joining && m.instanceID == "" {
			g.note(protocol.CauseNotRejoined, m, timeout, "")
			g.history.WaitedFor(m.id)
			g.drop(m, protocol.ErrUnknownMember)
		}
	}
	g.electLeader()
	if len(g.members) == 0 {
		g.becomeEmpty(now)
		return
	}
	g.generation++
	g.protocol, g.state = g.vote(), protocol.CompletingRebalance
	g.syncDeadline = now.Add(g.rebalanceTimeout())
	g.wake(g.syncDeadline)
	for _, m := range g.inOrder() {
		g.edit(m)
		m.mustSync, m.isNew, m.assignment = true, false, nil
		g.alive(m, now)
		g.answerJoin(m, g.joinResponse(m), nil)
	}
}

// electLeader replaces a group leader that did not join again.
func (g *Group) electLeader() {
	if m := g.members[g.leader]; m != nil && m.joining {
		return
	}
	for _, m := range g.inOrder() {
		if m.joining {
			g.leader = m.id
			return
		}
	}
}

// vote chooses the protocol. Every member votes for the first of its protocols that all members
// support. The most votes win. The group leader's order decides a tie, which Kafka leaves to
// chance.
func (g *Group) vote() string {
	votes := make(map[string]int)
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.allSupport(p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	if leader := g.members[g.leader]; leader != nil {
		for _, p := range leader.protocols {
			if n := votes[p.Name]; n > 0 && (best == "" || n > votes[best]) {
				best = p.Name
			}
		}
	}
	return best
}
