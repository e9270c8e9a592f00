package share

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share/internal/groupstate"
)

// A Coordinator stores the states of share-partitions and hands out their records. Each request
// goes to the broker that leads the partition of the state topic.
//
// Every blocking method returns when its ctx is done; work accepted earlier stays accepted. A
// Coordinator has two goroutines, and one for each partition of the topic that is currently being
// written or loaded. It is safe for concurrent use.
type Coordinator struct {
	cfg     Config
	core    groupstate.Config
	cluster *replication.Cluster
	states  *states
	route   route
	ctx     context.Context // done when closing
	cancel  context.CancelFunc
	wg      sync.WaitGroup // goroutines of watch, pruneAgain and store

	mu      sync.Mutex // guards the fields below
	leaders map[Key]*leader
	loading map[Key]chan struct{} // closed when the load of a leader has ended
	resets  int64                 // number of deletions and resets of share-partitions
}

type (
	route   = coordinator.Route[*groupstate.Machine, groupstate.Event, sharelog.Record]
	shard   = coordinator.Shard[*groupstate.Machine, groupstate.Event, sharelog.Record]
	request = coordinator.Request[*groupstate.Machine, groupstate.Event, sharelog.Record]
)

// NewCoordinator returns a running Coordinator over the brokers of c, which must outlive it. The
// state topic is loaded in the background; requests wait for the part they need. It returns an
// error only for an invalid cfg: *topic.ConfigError, or replication.ErrInvalidReplicationFactor if
// there are fewer brokers than Topic.Replicas and no topic yet.
func NewCoordinator(c *replication.Cluster, cfg Config) (*Coordinator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	states, err := newStates(c, cfg.Topic)
	if err != nil {
		return nil, fmt.Errorf("Topic.Replicas: %w", err)
	}
	s := &Coordinator{cfg: cfg, core: groupstate.Config{UpdatesPerSnapshot: cfg.UpdatesPerSnapshot}, cluster: c, states: states,
		leaders: map[Key]*leader{}, loading: map[Key]chan struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.route = route{Broker: coordinator.AnyBroker, Runtime: coordinator.New(s.kind(), states, coordinator.Config{Topic: sharelog.Topic,
		ExpiryInterval: time.Hour, MaxBatchBytes: cfg.Topic.MaxBatchBytes, Logger: cfg.Logger})}
	s.wg.Go(s.watch)
	s.wg.Go(s.pruneAgain)
	return s, nil
}

// kind returns the runtime's description of share-partitions.
func (c *Coordinator) kind() coordinator.Kind[*groupstate.Machine, groupstate.Event, sharelog.Record] {
	return coordinator.Kind[*groupstate.Machine, groupstate.Event, sharelog.Record]{
		New: func(id string) *groupstate.Machine {
			m := groupstate.New(id, &c.core)
			m.ChargeTo(c.cluster.CoordinatorMemory().NewCharge())
			return m
		},
		ID:        func(r sharelog.Record) string { return r.Key.ID() },
		Partition: sharelog.PartitionFor,
		Encode: func(r sharelog.Record) (key, value []byte) {
			if r.Value != nil {
				value = r.Value.AppendTo(nil, r.Update)
			}
			return sharelog.AppendKey(nil, r.Key, r.Update), value
		},
		Decode: sharelog.ParseRecord,
		Tick:   groupstate.EventNothing{}, Expire: groupstate.EventNothing{}, Loaded: groupstate.EventNothing{},
		Cancel: func(machine.Ticket) groupstate.Event { return groupstate.EventNothing{} },
	}
}

// Close ends every waiting call with ErrClosed and returns when the last goroutine has ended.
// Changes in progress may or may not be stored. It is idempotent and safe to call concurrently; the
// cluster is not closed.
func (c *Coordinator) Close() error {
	c.cancel()
	c.endLeaders(func(*leader) error { return ErrClosed })
	c.route.Runtime.Close()
	c.wg.Wait()
	return nil
}

// LockDuration returns the time for which a delivered record is locked for a member of group.
func (c *Coordinator) LockDuration(group string) time.Duration {
	return c.cfg.limits(group).LockDuration
}

// FindCoordinator returns the broker that stores the state of a share-partition, whether or not
// there is a state. It creates the topic if there is none. It returns ErrCoordinatorNotAvailable
// while no broker leads that partition of the topic. Kafka: FindCoordinator.
func (c *Coordinator) FindCoordinator(ctx context.Context, key Key) (broker int32, err error) {
	p, err := c.route.Partition(ctx, key.ID(), true)
	if err != nil {
		return -1, err
	}
	led, err := c.states.Leader(p)
	if err == nil && led.Broker < 0 {
		err = fmt.Errorf("%w: no broker leads partition %d of %s", ErrCoordinatorNotAvailable, p, sharelog.Topic)
	}
	return led.Broker, err
}

// watch follows the leaders of the topic's partitions, which are loaded and unloaded accordingly.
func (c *Coordinator) watch() {
	for version := int64(-1); c.ctx.Err() == nil; {
		if _, err := c.route.Runtime.Partitions(c.ctx, false); err != nil {
			c.cfg.Logger.Debug("topic was not found", "topic", sharelog.Topic, "err", err) // a request tries again, and returns the error
		}
		c.route.Runtime.Follow()
		c.endLeaders(c.isOver)
		next, err := c.cluster.WaitMetadata(c.ctx, version)
		if err != nil {
			return // it is closing
		}
		version = next
	}
}

// endLeaders ends the leaders for which f returns an error, and waits for their alarms.
func (c *Coordinator) endLeaders(f func(*leader) error) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.leaders))
	c.mu.Unlock()
	for _, l := range all {
		if err := f(l); err != nil {
			l.end(err)
			l.alarm.Wait()
		}
	}
}

// isOver returns the error for the end of a leader's epoch.
func (c *Coordinator) isOver(l *leader) error {
	_, epoch, err := c.cluster.LeaderOfTopic(l.tp, l.key.TopicID)
	switch {
	case err != nil:
		return err
	case epoch > l.epoch:
		return fmt.Errorf("%w: %d, now it is %d", ErrFencedLeaderEpoch, l.epoch, epoch)
	}
	return nil
}
