package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
)

// AddBroker adds a broker to the cluster, starts it, and returns its id; id 0 means the next free
// id. Its directory is new, or belongs to a broker of this cluster that was removed or was not in
// Config. In the latter cases the broker serves the data in it. Existing replicas stay where they
// are; new partitions are placed on the new broker too. The next Open must include the broker: a
// Config with a smaller number of Brokers, or without its BrokerSpec, leaves it out.
//
// Errors: ErrBrokerExists, ErrTooManyBrokers, ErrUnknownBroker for an id below 0, and those of
// StartBroker. After an error nothing has changed, except that a directory may have been created.
// If ctx ends first, the broker may still be added.
func (c *Cluster) AddBroker(ctx context.Context, id int32, spec BrokerSpec) (int32, error) {
	added := make(chan int32, 1)
	err := c.await(ctx, func() error {
		if err := c.foundNow(); err != nil {
			return err
		}
		b, err := c.addPlace(id, spec)
		if err != nil {
			return err
		}
		added <- b.id
		if err := c.bringUp(b); err != nil {
			c.dropPlace(b)
			return fmt.Errorf("broker %d: %w", b.id, err)
		}
		c.logger.Info("broker added", slog.Int("broker", int(b.id)))
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("add broker: %w", err)
	}
	return <-added, nil
}

// addPlace notes where a new broker is, and that it is starting.
func (c *Cluster) addPlace(id int32, spec BrokerSpec) (*broker, error) {
	next := id == 0
	for {
		if next {
			id = c.nextID()
		}
		l := c.cfg.location(id, spec) // without the lock: it accesses the disk
		c.mu.Lock()
		err := c.mayAddLocked(l)
		if err == nil {
			c.brokers[id] = &broker{location: l}
		}
		c.mu.Unlock()
		switch {
		case next && errors.Is(err, ErrBrokerExists): // it was added meanwhile
			continue
		case err != nil:
			return nil, err
		}
		return c.beginStart(id)
	}
}

// nextID returns the id behind those of all brokers.
func (c *Cluster) nextID() (id int32) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for known := range c.brokers {
		id = max(id, known)
	}
	for known := range c.image.Members { // including brokers that Config leaves out
		id = max(id, known)
	}
	return id + 1
}

func (c *Cluster) mayAddLocked(l location) error {
	switch {
	case l.id < 1:
		return fmt.Errorf("%w: %d", ErrUnknownBroker, l.id)
	case l.id > maxBrokers:
		return fmt.Errorf("%w: %d, at most %d", ErrTooManyBrokers, l.id, maxBrokers)
	case c.brokers[l.id] != nil:
		return fmt.Errorf("%w: %d", ErrBrokerExists, l.id)
	}
	for _, other := range c.brokers {
		if err := l.apartFrom(other.location); err != nil {
			return err
		}
	}
	return nil
}

// dropPlace removes a broker that is not running, unless it was started meanwhile.
func (c *Cluster) dropPlace(b *broker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.phase == down && c.brokers[b.id] == b {
		delete(c.brokers, b.id)
	}
}

// RemoveBroker removes a broker from the cluster permanently, and stops it first if it is running.
// Its directory is left as it is. An Open whose Config names the broker, or that finds its
// directory in Config.Dir with Brokers 0, adds it again.
//
// Errors: ErrUnknownBroker; ErrLastBroker; a *ReplicasError if the broker has replicas, which must
// be moved or deleted first. After these nothing has changed. Further errors: those of StopBroker,
// and ErrClosed.
func (c *Cluster) RemoveBroker(ctx context.Context, id int32) error {
	if err := c.await(ctx, func() error { return c.removeBroker(id, false) }); err != nil {
		return fmt.Errorf("remove broker %d: %w", id, err)
	}
	return nil
}

// RemoveLostBroker is RemoveBroker for a broker whose disk is lost: it gives up the replicas that
// only this broker had. Their partitions have no leader until they are deleted or a broker with the
// same id is added. If the directory of that broker is new, the partitions start empty at offset 0
// in a new leader epoch. If it is the old directory after all, they start with their records. The
// broker must not be running: ErrBrokerRunning.
func (c *Cluster) RemoveLostBroker(ctx context.Context, id int32) error {
	if err := c.await(ctx, func() error { return c.removeBroker(id, true) }); err != nil {
		return fmt.Errorf("remove lost broker %d: %w", id, err)
	}
	return nil
}

func (c *Cluster) removeBroker(id int32, lost bool) error {
	if err := c.takeTurn(id); err != nil {
		return err
	}
	c.mu.RLock()
	b := c.brokers[id]
	c.mu.RUnlock()
	ending, l, err := c.withdraw(id, lost)
	c.endTurn()
	if ending != nil {
		if ended := c.bury(ending, l); err == nil {
			err = ended
		}
	}
	if err == nil && b != nil {
		c.dropPlace(b)
	}
	if err == nil {
		c.logger.Info("broker removed", slog.Int("broker", int(id)))
	}
	return err
}

// withdraw removes a broker from the metadata. A broker that it returns must be buried.
func (c *Cluster) withdraw(id int32, lost bool) (ending *broker, l *metalog.Copy, err error) {
	if err := c.enter(context.Background(), c.changing); err != nil {
		return nil, nil, err
	}
	defer func() { <-c.changing }()
	if err := c.writable(nil); err != nil {
		return nil, nil, err
	}
	c.mu.RLock()
	b := c.brokers[id]
	_, member := c.image.Members[id]
	has := c.image.ReplicasOn(id)
	runs := b != nil && b.phase != down
	c.mu.RUnlock()
	switch {
	case b == nil && !member:
		return nil, nil, fmt.Errorf("%w: %d", ErrUnknownBroker, id)
	case lost && runs:
		return nil, nil, fmt.Errorf("%w: %d", ErrBrokerRunning, id)
	case !lost && len(has) > 0:
		return nil, nil, &ReplicasError{Broker: id, Partitions: has}
	}
	if runs {
		if ending, l, err = c.leaveNow(id); err != nil {
			return ending, l, err
		}
	}
	if member {
		err = c.perform(func(img *image.Image) ([]metarecord.Record, error) {
			return []metarecord.Record{img.Unregister(id)}, nil
		}, nil)
	}
	if err == nil && len(has) > 0 {
		err = c.relead() // others must not count on them
		c.logger.Error("replicas are given up with their broker", slog.Int("broker", int(id)), slog.Int("partitions", len(has)))
	}
	return ending, l, err
}
