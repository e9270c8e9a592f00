package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/vfs"
)

// A broker is this process's state of a broker of the cluster: its directory, and its incarnation,
// if there is one. Guarded by Cluster.mu.
type broker struct {
	location
	phase   phase
	node    *node         // nil while it is down, and at first while it is starting
	session *vfs.Session  // of the incarnation; nil while it is down
	gone    chan struct{} // closed when nothing of the incarnation is left; nil: there was none
	failed  error         // why Open left it out; nil if it did not, or if the broker was started since
	heir    chan struct{} // closed when the goroutine that kills the broker has turnover; nil: none waits for it
}

// phase is where a broker is in its life.
type phase uint8

const (
	down     phase = iota
	starting       // it loads its directory; the metadata still has it as fenced
	serving
	leaving // it serves no longer; work in progress ends
)

// brokerOfLocked returns a broker whose place is known, whether it runs or not.
func (c *Cluster) brokerOfLocked(id int32) (*broker, error) {
	b := c.brokers[id]
	if b == nil {
		return nil, fmt.Errorf("%w: %d", ErrUnknownBroker, id)
	}
	return b, nil
}

// mayEndLocked returns the reason why a broker cannot be ended, or nil. The last serving one
// cannot.
func (c *Cluster) mayEndLocked(b *broker) error {
	if b.phase == down {
		return fmt.Errorf("%w: %d", ErrBrokerDown, b.id)
	}
	if b.phase != serving || c.image.Members[b.id].Fenced {
		return nil
	}
	for id := range c.nodes {
		if id != b.id && !c.image.Members[id].Fenced {
			return nil
		}
	}
	return fmt.Errorf("%w: %d", ErrLastBroker, b.id)
}

// unserve removes a broker from the nodes that receive calls, and returns it; nil if it does not
// serve, or no longer. The caller that gets the broker must bury it.
func (c *Cluster) unserve(id int32) *broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.brokers[id]
	if b == nil || b.phase != serving {
		return nil
	}
	b.phase = leaving
	nodes := maps.Clone(c.nodes)
	delete(nodes, id)
	c.nodes = nodes
	return b
}

// bury closes the rest of an incarnation that does not serve: its partitions, its copy of the
// metadata, which may be nil, and its directory. Afterwards the broker may be started again.
func (c *Cluster) bury(b *broker, l *metalog.Copy) error {
	n := b.node // it does not change before markDown
	err := n.close()
	if l != nil {
		err = errors.Join(err, l.Close())
	}
	err = errors.Join(err, n.leave())
	c.markDown(b)
	return err
}

// markDown marks a broker as not running, when the last call of the file system of its incarnation
// has ended.
func (c *Cluster) markDown(b *broker) {
	b.session.End()
	b.session.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	b.phase, b.node, b.session = down, nil, nil
	close(b.gone)
}

// takeTurn waits until no other broker is coming or going.
func (c *Cluster) takeTurn(id int32) error {
	if err := c.enter(context.Background(), c.turnover); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turning = id
	return nil
}

// endTurn lets another broker start or stop. A goroutine that waits to kill this one comes first:
// this one is cut off, and no other broker may be before the metadata has it as fenced.
func (c *Cluster) endTurn() {
	c.mu.Lock()
	b := c.brokers[c.turning]
	c.turning = 0
	var heir chan struct{}
	if b != nil {
		heir, b.heir = b.heir, nil
	}
	c.mu.Unlock()
	if heir != nil {
		close(heir)
		return
	}
	<-c.turnover
}

// inherit requests the turn of the goroutine that is starting or stopping the broker; nil if there
// is none.
func (c *Cluster) inherit(id int32) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.brokers[id]
	if b == nil || c.turning != id || b.heir != nil {
		return nil
	}
	b.heir = make(chan struct{})
	return b.heir
}

// enter waits for a channel with room for one, until ctx ends or the cluster closes. If that was
// before, it counts, though there is room: it must not be the scheduler that decides.
func (c *Cluster) enter(ctx context.Context, room chan struct{}) error {
	if err := c.live(ctx); err != nil {
		return err
	}
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return ErrClosed
	}
}

// Members returns the ids, in order, of all brokers whose directory is known, running or not.
func (c *Cluster) Members() []int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.brokers))
}
