package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/follow"
)

// Sessions of brokers with the controller. Two brokers have a link while neither path between them
// is cut or paused. A broker whose link to the controller is down for Config.SessionTimeout is
// fenced, as a broker with missed heartbeats is in Kafka: heartbeats have responses, so either
// direction counts. It is fenced in the metadata and leads nothing, but keeps running, and joins
// again when the link is up again.
//
// The role of the controller moves first. If a broker has links to a majority of the serving
// brokers, and to more brokers than the controller has, it becomes controller once a session with
// the present controller has expired. So one cut between two of three brokers has no effect on
// clients. A controller without such a majority fences no broker: two halves that do not reach each
// other stay as they are.
//
// No messages are sent for this. The network notifies when a path is closed or opened, the metadata
// when a broker starts or ends, and Cluster.sessions is armed for the end of the next session:
// while no path is closed there is no timer.

// errUnreachable is why a broker is fenced that runs on.
var errUnreachable = errors.New("the controller has not reached it for its session timeout")

// A reachability is the input for the decision about sessions.
type reachability struct {
	controller int32
	serving    []int32             // ascending, the controller among them
	apart      []int32             // brokers that are fenced and running, ascending
	joined     map[int32]time.Time // when a broker began to serve; zero: when the cluster was opened
	parted     func(a, b int32) (since time.Time, parted bool)
	now        time.Time
	patience   time.Duration // of a session
}

// A verdict lists the actions for sessions, in this order.
type verdict struct {
	controller int32     // the broker that is to be controller
	over       []int32   // brokers that serve and are to be fenced
	back       []int32   // brokers that run fenced and are to join again
	next       time.Time // when to judge again; zero: when something changes
}

// due reports whether anything is to be done.
func (v *verdict) due(controller int32) bool {
	return v.controller != controller || len(v.over) > 0 || len(v.back) > 0
}

// judge decides. For given links and brokers the decisions converge: the controller changes only to
// a broker with more links, and the links do not depend on which brokers serve.
func (r *reachability) judge() (v verdict) {
	v.controller = r.controller
	running := slices.Concat(r.serving, r.apart)
	if slices.ContainsFunc(running, func(id int32) bool { return r.isOver(r.controller, id) }) {
		v.controller = r.bestConnected()
	}
	for _, id := range running {
		if end, ends := r.sessionEnd(v.controller, id); ends && end.After(r.now) && (v.next.IsZero() || end.Before(v.next)) {
			v.next = end
		}
	}
	if r.hasMajority(v.controller) {
		for _, id := range r.serving {
			if r.isOver(v.controller, id) {
				v.over = append(v.over, id)
			}
		}
	}
	for _, id := range r.apart {
		if r.linked(v.controller, id) {
			v.back = append(v.back, id)
		}
	}
	return v
}

// sessionEnd returns when a broker's session with a controller expires, if they have no link.
func (r *reachability) sessionEnd(controller, id int32) (end time.Time, ends bool) {
	if id == controller {
		return end, false
	}
	since, parted := r.parted(controller, id)
	for _, broker := range []int32{controller, id} {
		if joined := r.joined[broker]; joined.After(since) {
			since = joined
		}
	}
	return since.Add(r.patience), parted
}

func (r *reachability) isOver(controller, id int32) bool {
	end, ends := r.sessionEnd(controller, id)
	return ends && !end.After(r.now)
}

func (r *reachability) linked(a, b int32) bool {
	_, parted := r.parted(a, b)
	return !parted
}

// links returns to how many of brokers one has links, itself included if it is one of them.
func (r *reachability) links(id int32, brokers []int32) (n int) {
	for _, other := range brokers {
		if other == id || r.linked(id, other) {
			n++
		}
	}
	return n
}

// hasMajority reports whether a broker has links to a majority of the serving brokers.
func (r *reachability) hasMajority(id int32) bool {
	return 2*r.links(id, r.serving) > len(r.serving)
}

// bestConnected returns the broker that is to be controller: the one with most links that has a
// majority, the lowest of these, but the present one if none has more links.
func (r *reachability) bestConnected() int32 {
	running := slices.Concat(r.serving, r.apart)
	best, most := r.controller, r.links(r.controller, running)
	for _, id := range r.serving {
		if n := r.links(id, running); n > most && r.hasMajority(id) {
			best, most = id, n
		}
	}
	return best
}

// judgeSessions judges by the metadata and the network as they are.
func (c *Cluster) judgeSessions() (v verdict, controller int32) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := reachability{controller: c.Controller(), joined: map[int32]time.Time{}, now: time.Now(), patience: c.cfg.SessionTimeout}
	r.parted = func(a, b int32) (time.Time, bool) { return follow.Parted(&c.network, a, b) }
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		if r.joined[id] = c.nodes[id].joined; c.image.Members[id].Fenced {
			r.apart = append(r.apart, id)
		} else {
			r.serving = append(r.serving, id)
		}
	}
	return r.judge(), r.controller
}

// noteBrokers has sessions judged again when a change starts or ends a broker.
func (c *Cluster) noteBrokers(recs []metarecord.Record) {
	if slices.ContainsFunc(recs, isOfBroker) {
		c.watchSessions()
	}
}

// watchSessions has sessions judged again, if any path is impaired.
func (c *Cluster) watchSessions() {
	if c.network.Impaired() {
		c.sessions.By(time.Now())
	}
}

// isOfBroker reports whether a record starts or ends the serving of a broker.
func isOfBroker(rec metarecord.Record) bool {
	switch rec.(type) {
	case *metarecord.RegisterBroker, *metarecord.BrokerChange:
		return true
	}
	return false
}

// reviewSessions performs the due actions for sessions, and schedules its next call for the end of
// the next session. It waits for the change in progress. A failed action is retried after another
// session.
func (c *Cluster) reviewSessions() {
	v, controller := c.judgeSessions()
	if v.due(controller) || c.unsettled {
		done := make(chan error, 1)
		if !c.run(func() { done <- c.makeChanges(c.settleSessions) }) {
			return
		}
		err := <-done
		if c.unsettled = err != nil; err != nil {
			c.logger.Warn("sessions of brokers are looked at again later", slog.Any("err", err))
			c.sessions.By(time.Now().Add(c.cfg.SessionTimeout))
		}
		v, _ = c.judgeSessions()
	}
	if !v.next.IsZero() {
		c.sessions.By(v.next)
	}
}

// settleSessions takes one step after the other, until nothing is due.
func (c *Cluster) settleSessions() error {
	for range 3 * len(c.Members()) { // one change of the controller, and of each broker, is enough
		v, controller := c.judgeSessions()
		var err error
		switch {
		case v.controller != controller:
			c.logger.Warn("controller is not reached by enough brokers", slog.Int("broker", int(controller)), slog.Int("next", int(v.controller)))
			err = c.handOver(controller, v.controller)
		case len(v.over) > 0:
			err = c.isolate(v.over)
		case len(v.back) > 0:
			err = c.readmit(v.back[0])
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("brokers come and go all the time")
}

// isolate fences brokers whose sessions have expired, if the others may continue without them. From
// that change on they lead nothing, and keep running.
func (c *Cluster) isolate(ids []int32) error {
	out := map[int32]error{}
	for _, id := range ids {
		out[id] = fmt.Errorf("broker %d: %w", id, errUnreachable)
	}
	if !c.meta.CanSpare(out) {
		return fmt.Errorf("brokers %v cannot be fenced: the others are too few", ids)
	}
	fenced, err := c.takeOutNow(out)
	if err != nil {
		return err
	}
	var failed []int32 // meanwhile: these end
	for _, id := range fenced {
		if n := c.serving()[id]; n != nil && errors.Is(out[id], errUnreachable) {
			n.standDown()
		} else {
			failed = append(failed, id)
		}
	}
	return c.retireFenced(failed)
}

// readmit has a broker serve again that was fenced and runs. Its copy of the metadata, which was
// not written to meanwhile, is brought up to date before that.
func (c *Cluster) readmit(id int32) error {
	n := c.serving()[id]
	if n == nil {
		return nil
	}
	err := c.admit(n)
	if err != nil && !c.meta.Has(id) {
		if l := c.meta.Surrender(id); l != nil { // it is opened again the next time
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// standDown ends the leaderships of a broker that is fenced and keeps running: unacknowledged
// appends never are acknowledged, and readers look for another leader. Partitions with several
// replicas do so because of the metadata; those with one are changed here.
func (n *node) standDown() {
	n.isolated.Store(true) // before open partitions are read: see replica.opened
	for _, r := range n.all() {
		if p := r.readable.Load(); p != nil && p.LeaderEpoch() >= 0 {
			p.BecomeFollower()
		}
		r.wakeWatches()
	}
}

// standUp undoes standDown: the broker serves again. Partitions with one replica, which had no
// leader meanwhile, get a new epoch with the change that records it.
func (n *node) standUp() {
	n.isolated.Store(false)
	n.beginNextEpoch()
}
