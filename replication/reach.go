package replication

import (
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/replication/internal/follow"
)

// Leaders ask the controller over the network between brokers, and where that is cut they ask in
// vain: their in-sync sets cannot shrink, and nothing with acks=all is acknowledged. In Kafka the
// other controllers would miss this one, and elect another. Here a leader misses it that has asked
// in vain during Config.SessionTimeout. The role goes to the broker that reaches the most others,
// if these are a majority of those that serve and more than the controller reaches. So two halves
// do not take it from each other, a majority on the controller's side keeps it, and without another
// cut it moves once.
//
// The role is all that moves. Metadata itself does not go over this network: the broker that was
// controller is neither fenced nor missed by the copies, hears of every change, and may be
// controller again. Handing the role over is what a controlled stop does first.

// missedLocked notes that a question to the controller was lost on its way. Callers hold asks.mu.
func (a *asks) missedLocked(controller int32, patience time.Duration) (tooLong bool) {
	now := time.Now()
	if a.missing != controller {
		a.missing, a.missedSince = controller, now
	}
	return now.Sub(a.missedSince) >= patience
}

// send sends a question to the controller; false: it did not arrive.
func (n *node) send(controller int32) bool {
	if n.id == controller {
		return true
	}
	c := n.metadata.c
	how := c.network.Send(follow.Path{From: n.id, To: controller}, n.closing)
	n.asks.mu.Lock()
	tooLong := false
	if how == follow.Lost {
		tooLong = n.asks.missedLocked(controller, c.cfg.SessionTimeout)
	}
	if how == follow.Delivered || tooLong {
		n.asks.missing = 0
	}
	n.asks.mu.Unlock()
	if tooLong {
		c.replaceController(controller)
	}
	return how == follow.Delivered
}

// replaceController makes a broker controller that reaches more others than this one does, if there
// is one that reaches a majority. It does not wait for that.
func (c *Cluster) replaceController(id int32) {
	c.afterChange(func() error {
		to := c.bestConnected(id)
		if to == id || c.meta.Controller() != id {
			return nil
		}
		c.logger.Warn("controller cannot be reached by enough brokers", slog.Int("broker", int(id)), slog.Int("next", int(to)))
		return c.handOver(id, to)
	}, "controller that cannot be reached is not replaced yet", slog.Int("broker", int(id)))
}

// bestConnected returns the broker that reaches the most of those that serve, and is reached by
// them: the lowest of these, but controller itself if nobody reaches more than that, or nobody
// reaches a majority.
func (c *Cluster) bestConnected(controller int32) int32 {
	all := c.Brokers()
	reach := func(id int32) (others int) {
		for _, other := range all {
			if other != id && !c.network.IsCut(follow.Path{From: id, To: other}) && !c.network.IsCut(follow.Path{From: other, To: id}) {
				others++
			}
		}
		return others
	}
	best, most := controller, reach(controller)
	for _, id := range slices.Sorted(slices.Values(all)) {
		if r := reach(id); r > most && 2*(r+1) > len(all) {
			best, most = id, r
		}
	}
	return best
}
