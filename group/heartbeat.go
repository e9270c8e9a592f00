package group

import "time"

// EventHeartbeat is a HeartbeatRequest. The reply carries only an error and never waits.
type EventHeartbeat struct {
	*HeartbeatRequest
	To Ticket
}

func (e EventHeartbeat) step(g *Group, now time.Time) {
	m, err := g.checkGeneration(e.MemberID, e.InstanceID, e.Generation)
	if err == nil {
		g.alive(m, now)
		if g.state == PreparingRebalance {
			err = ErrRebalanceInProgress
		}
	}
	g.eff.Replies = append(g.eff.Replies, Reply{To: e.To, Err: err, Now: true})
}
