package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// EventHeartbeat is a HeartbeatRequest. The reply carries only an error and never waits.
type EventHeartbeat struct {
	*protocol.HeartbeatRequest
	To machine.Ticket
}

func (e EventHeartbeat) step(g *Group, now time.Time) {
	m, err := g.checkGeneration(e.MemberID, e.InstanceID, e.Generation)
	if err == nil {
		g.alive(m, now)
		if g.state == protocol.PreparingRebalance {
			err = protocol.ErrRebalanceInProgress
		}
	}
	g.eff.Replies = append(g.eff.Replies, machine.Reply{To: e.To, Err: err, Now: true})
}
