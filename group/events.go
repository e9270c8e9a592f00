package group

import (
	"context"
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/feed"
)

// maxEvents is how many events are kept for readers that are behind.
const maxEvents = 1024

// Events returns an iterator over the events of all groups from this call on. The iterator waits
// for more events, and ends when ctx ends or the Coordinator is closed. Ranging over it again
// continues after the last event that it returned. It need not be closed. Several goroutines may
// range over one iterator; each event goes to one of them. Several iterators each return all
// events.
//
// Order: the events of a group are in order, and each comes after its change is committed. If a
// write of the offsets topic fails, the events of that change are dropped with the change.
//
// Loss: a slow reader delays no group. The latest 1,024 events are kept. A reader that is further
// behind receives one EventsMissed in place of the dropped events. Events before the first call are
// not kept.
func (c *Coordinator) Events(ctx context.Context) iter.Seq[Event] {
	return c.events.All(ctx, func(got feed.Reading[Event]) Event {
		e := got.Item
		if got.Missed > 0 {
			e = Event{Kind: EventsMissed, Time: time.Now(), Missed: got.Missed}
		}
		e.Number = got.Number
		return e
	})
}

// record passes an event to readers, in the order of the group.
func (c *Coordinator) record(_ coordinator.ShardID, event any) {
	c.events.Put(*event.(*Event))
}

// notify carries out the consequences of an event: it notifies members in this process and the
// owner of the Coordinator, and writes a line to the log.
func (c *Coordinator) notify(_ coordinator.ShardID, event any) {
	e := event.(*Event)
	switch {
	case e.Kind == protocol.Joining && e.Type == Classic:
		c.tellMembers(e.Group, math.MaxInt)
	case e.Kind == protocol.Joined, e.Kind == protocol.Emptied && e.Type == Classic:
		c.rebalances.Add(1)
		c.tellMembers(e.Group, math.MaxInt)
		if c.cfg.Hooks.OnRebalanced != nil {
			c.cfg.Hooks.OnRebalanced(Rebalanced{Group: e.Group, Generation: e.Generation, Members: e.Size, Protocol: e.Assignor})
		}
	}
	if e.Kind == protocol.Assigned || e.Kind == protocol.Emptied {
		c.logRebalance(e)
	}
}

// loggedCauses is how many causes a line of the log has.
const loggedCauses = 3

// logRebalance writes a line about a rebalance that has ended. A group that rebalances all the time
// does not fill the log: after some lines the others of that minute are written at Debug.
func (c *Coordinator) logRebalance(e *Event) {
	level, skipped := c.logged.Next(e.Time, slog.LevelInfo)
	few := *e
	if more := len(e.Causes) - loggedCauses; more > 0 {
		few.Causes, few.MoreCauses = e.Causes[:loggedCauses], e.MoreCauses+more
	}
	args := []any{"group", e.Group, "generation", e.Generation, "members", e.Size, "protocol", e.Assignor, "cause", few.Cause(), "took", e.Ended.Sub(e.Began)}
	if e.WaitedFor != "" {
		args = append(args, "waited_for", e.WaitedFor)
	}
	if skipped > 0 {
		args = append(args, "not_logged_before", skipped)
	}
	c.cfg.Logger.Log(c.ctx, level, "rebalanced", args...)
}
