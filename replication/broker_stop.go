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

// StopBroker shuts a broker down in order. The metadata records, in Kafka's order, that the broker
// is shutting down, that its partitions have lost their leader, and that it is fenced. Then its
// work in progress ends, and its directory is closed as by Close. Appends that it has accepted are
// acknowledged. Later appends, and reads and waits, fail with ErrNotLeader at once. If the broker
// was the controller, another broker takes over. When StopBroker returns, nothing of the
// incarnation is left.
//
// Errors: ErrUnknownBroker; ErrBrokerDown; ErrLastBroker; disk errors; ErrClosed; and
// ErrMetadataReadOnly if too few copies of the metadata work to fence the broker. After
// ErrMetadataReadOnly the broker keeps running, and leads nothing until the metadata can be changed
// again. ErrLastBroker is also returned if the disks of all other brokers fail meanwhile: then the
// broker continues to serve in a new leader epoch. If ctx ends first, the broker may still stop. A
// broker that is fenced because the controller cannot reach it can be stopped like any other.
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

// leave makes a broker stop serving, in order. The broker that it returns must be buried, with its
// copy of the metadata, also if there is an error: then the metadata could not be changed.
func (c *Cluster) leave(id int32) (*broker, *metalog.Copy, error) {
	if err := c.enter(context.Background(), c.changing); err != nil {
		return nil, nil, err
	}
	defer func() { <-c.changing }()
	return c.leaveNow(id)
}

// leaveNow is leave; the caller holds changing.
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

// surrender stops passing calls to a fenced broker. It returns the broker and its copy of the
// metadata, which the caller has to bury.
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

// isLeaving reports whether a broker is shutting down in the metadata.
func (c *Cluster) isLeaving(id int32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Members[id].Leaving
}

// isFenced reports whether a broker is fenced in the metadata.
func (c *Cluster) isFenced(id int32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Members[id].Fenced
}

// stay undoes the shutdown of a broker that still serves: it registers again, as in Kafka only a
// registration ends a controlled shutdown, and leads its partitions again, in a new leader epoch.
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

// KillBroker ends a broker as a power failure does. From one instant on, none of its writes reaches
// its disk, and no call in progress completes. An append that is not yet acknowledged fails with
// partition.ErrNotLeaderAfterAppend, even if its sync succeeds later, or with ErrNotLeader if
// nothing was appended. Reads and waits fail with ErrNotLeader. Then the metadata fences the
// broker, and its partitions have no leader. If the broker was the controller, another broker takes
// over and completes a change that was in progress.
//
// On a vfs.MemFS, data that was not synced is lost. On any other file system, such as the operating
// system's, KillBroker is like killing the process: written data is there, and the next incarnation
// waits for the last system call of this one. When KillBroker returns, nothing of the incarnation
// is left.
//
// Unlike in Kafka, no session has to expire: the other brokers are notified at once. A broker that
// is starting or stopping can be killed too; then the StartBroker or StopBroker call ends.
//
// Errors: ErrUnknownBroker, ErrBrokerDown and ErrLastBroker, after which nothing has changed; and
// ErrClosed. Errors of the other brokers' disks are returned too, but the broker is dead all the
// same. This includes ErrMetadataReadOnly, if so many disks fail that the broker cannot be fenced.
// Then the broker is missing from the majority that the next change needs, until it is started.
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
		if err == nil && b == nil { // its start succeeded nevertheless
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

// strike cuts a broker off. A broker that it returns was serving, and must be buried; nil if
// another goroutine does that. gone is closed when nothing of the incarnation is left.
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
	served := c.unserve(id) // first: a caller that does not find it looks into the metadata
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

// powerCutter is implemented by file systems that can lose unsynced data. See vfs.MemFS.
type powerCutter interface {
	PowerCut(dir string, o vfs.CrashOptions) error
}

// fenceKilled fences a broker in the metadata that was cut off, and buries it.
func (c *Cluster) fenceKilled(b *broker) error {
	c.changing <- struct{}{} // also while the cluster closes, which waits for us
	err := c.expel(b.id)
	l := c.meta.Surrender(b.id)
	<-c.changing
	_ = c.bury(b, l) // every call on its disk fails
	return err
}
