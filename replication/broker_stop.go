package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/vfs"
)

// StopBroker ends a broker in order. The metadata says in Kafka's order that it is about to leave,
// that its partitions have lost their leader, and that it is fenced; then what is under way on it
// ends, and its directory is closed as Close closes it. Appends that it has taken are acknowledged;
// later ones, reads and waits end with ErrNotLeader at once. If the broker is controller another
// one is from then on. When StopBroker returns nothing of the incarnation is left.
//
// Errors: ErrUnknownBroker, ErrBrokerDown, ErrLastBroker, also if it is the last one because the
// disks of the others fail meanwhile: then it serves on, in another leader epoch. Those of the
// disks; ErrMetadataReadOnly if too few copies work to fence it: then it runs on, and leads nothing
// before the metadata can be changed again; ErrClosed. If ctx ends first it may still happen. A
// broker that is fenced because the controller does not reach it can be stopped like any other.
func (c *Cluster) StopBroker(ctx context.Context, id int32) error {
	if err := c.await(ctx, func() error { return c.stopBroker(id) }); err != nil {
		return fmt.Errorf("stop broker %d: %w", id, err)
	}
	return nil
}

func (c *Cluster) stopBroker(id int32) error {
	if err := c.takeTurn(id); err != nil {
		return err
	}
	b, l, err := c.leave(id)
	c.endTurn()
	if b == nil {
		return err
	}
	if ended := c.bury(b, l); err == nil {
		err = ended
	}
	c.tell(Event{Kind: BrokerStopped, Broker: id})
	c.logger.Info("broker stopped", slog.Int("broker", int(id)), slog.Any("err", err))
	return err
}

// leave takes a broker out of those that serve, in order. What it returns is to be buried, with its
// copy of the metadata, also if there is an error: then the metadata could not say so.
func (c *Cluster) leave(id int32) (*broker, *metalog.Copy, error) {
	if err := c.enter(context.Background(), c.changing); err != nil {
		return nil, nil, err
	}
	defer func() { <-c.changing }()
	return c.leaveNow(id)
}

// leaveNow is leave for who has changing.
func (c *Cluster) leaveNow(id int32) (*broker, *metalog.Copy, error) {
	err := c.mayLeave(id)
	if err == nil {
		if err = c.writable(nil); err == nil {
			err = c.mayLeave(id) // disks may have failed in that
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if c.isFenced(id) { // it runs, and the controller does not reach it: it leads nothing
		return c.surrender(id)
	}
	err = c.perform(func(img *image.Image) ([]metarecord.Record, error) { return []metarecord.Record{img.Leave(id)}, nil }, nil)
	if err != nil && c.meta.Failure() == nil && !c.isLeaving(id) {
		return nil, nil, err
	}
	if err == nil {
		err = c.relead()
	}
	if err == nil {
		err = c.handOver(id, 0) // it is about to leave
	}
	if err == nil && !c.meta.Has(id) { // its copy failed in that: it is fenced, and ends
		return nil, nil, fmt.Errorf("%w: %d", ErrBrokerDown, id)
	}
	if err == nil {
		err = c.expel(id) // unless it is the last one by now
	}
	if err != nil && !c.isFenced(id) {
		return nil, nil, errors.Join(err, c.stay(id))
	}
	b, l, gone := c.surrender(id)
	return b, l, errors.Join(err, gone)
}

// surrender has calls no longer handed to a broker that is fenced, and returns it, with its copy of
// the metadata, to be buried.
func (c *Cluster) surrender(id int32) (*broker, *metalog.Copy, error) {
	b := c.unserve(id)
	if b == nil { // it was killed
		return nil, nil, fmt.Errorf("%w: %d", ErrBrokerDown, id)
	}
	b.node.resign()
	return b, c.meta.Surrender(id), nil
}

// mayLeave returns why a broker cannot be stopped, nil if it can.
func (c *Cluster) mayLeave(id int32) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, err := c.brokerOfLocked(id)
	if err == nil {
		err = c.mayEndLocked(b)
	}
	if err == nil && b.phase != serving {
		err = fmt.Errorf("%w: it is starting or ending", ErrBrokerRunning)
	}
	return err
}

// isLeaving reports whether the metadata says that a broker is about to be fenced.
func (c *Cluster) isLeaving(id int32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Members[id].Leaving
}

// isFenced reports whether the metadata says that a broker does not serve.
func (c *Cluster) isFenced(id int32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Members[id].Fenced
}

// stay takes back that a broker leaves, if it still serves: it registers again, as in Kafka only a
// registration ends a controlled shutdown, and leads what it led, in another leader epoch.
func (c *Cluster) stay(id int32) error {
	n := c.serving()[id]
	if n != nil && c.meta.Failure() != nil {
		return c.writable(nil) // every broker registers again in that
	}
	if n == nil || !c.meta.Has(id) {
		return nil
	}
	err := c.perform(func(img *image.Image) ([]metarecord.Record, error) { return img.Register(n.arrival()), nil }, nil)
	if err != nil {
		return err
	}
	n.beginNextEpoch()
	return c.relead()
}

// KillBroker ends a broker as a loss of power does. From one moment on nothing that it does reaches
// its disk, and nothing completes that is under way: an append that is not acknowledged yet
// ends with partition.ErrNotLeaderAfterAppend, or ErrNotLeader if nothing was appended, also if
// its sync ends well later; reads and waits end with ErrNotLeader. Then the metadata fences it,
// and its partitions have no leader. If it was controller, also in the middle of a change,
// another one is, and the change is made.
//
// On a vfs.MemFS what was not synced is gone. On other file systems, the operating
// system's for one, it is as when the process is killed: what was written is there,
// and the next incarnation waits for the last call of the system. When KillBroker
// returns nothing of the incarnation is left.
//
// There is no session to time out: unlike in Kafka the others know at once. A broker that is just
// starting or stopping can be killed too, and the call that does so ends.
//
// Errors: ErrUnknownBroker, ErrBrokerDown, ErrLastBroker, with nothing changed; ErrClosed; those of
// the other brokers' disks, the broker being dead all the same; so with ErrMetadataReadOnly if the
// disks of so many fail that nobody can fence it. Then it is missing for the majority that the next
// change needs, until it is started.
func (c *Cluster) KillBroker(id int32) error {
	if err := c.await(context.Background(), func() error { return c.killBroker(id) }); err != nil {
		return fmt.Errorf("kill broker %d: %w", id, err)
	}
	return nil
}

func (c *Cluster) killBroker(id int32) error {
	// It may be hanging in its own start or stop: then it is cut off first.
	turn := c.inherit(id)
	if turn == nil {
		if err := c.enter(context.Background(), c.turnover); err != nil {
			return err
		}
	}
	b, gone, err := c.strike(id)
	if turn != nil {
		<-turn
		if err == nil && b == nil { // its start went through all the same
			b = c.unserve(id)
		}
	}
	if b != nil {
		err = c.fenceKilled(b)
	}
	<-c.turnover
	if gone != nil {
		<-gone
		c.logger.Info("broker killed", slog.Int("broker", int(id)), slog.Any("err", err))
	}
	return err
}

// strike cuts a broker off. The broker that it returns served, and is to be buried; nil if somebody
// does already. gone is closed when nothing of it is left.
func (c *Cluster) strike(id int32) (*broker, <-chan struct{}, error) {
	c.mu.RLock()
	b, err := c.brokerOfLocked(id)
	if err == nil {
		err = c.mayEndLocked(b)
	}
	if err != nil {
		c.mu.RUnlock()
		return nil, nil, err
	}
	n, session, gone := b.node, b.session, b.gone
	c.mu.RUnlock()
	served := c.unserve(id) // first: who finds it gone asks the metadata
	c.tell(Event{Kind: BrokerKilled, Broker: id})
	if n != nil {
		n.cut()
	}
	session.End()
	if disk, ok := b.fs.(powerCutter); ok {
		session.Wait() // a call that has begun may still change something
		if err := disk.PowerCut(b.root, vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}); err != nil {
			c.logger.Warn("directory of a killed broker keeps what was not synced", slog.Int("broker", int(id)), slog.Any("err", err))
		}
	}
	return served, gone, nil
}

// powerCutter is implemented by file systems that can lose what was not synced. See vfs.MemFS.
type powerCutter interface {
	PowerCut(dir string, o vfs.CrashOptions) error
}

// fenceKilled makes the metadata say that a broker is gone that was cut off, and buries it.
func (c *Cluster) fenceKilled(b *broker) error {
	c.changing <- struct{}{} // also while the cluster closes, which waits for us
	err := c.expel(b.id)
	l := c.meta.Surrender(b.id)
	<-c.changing
	_ = c.bury(b, l) // every call on its disk fails
	return err
}
