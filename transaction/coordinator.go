package transaction

import (
	"context"
	"fmt"
	"sync"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
	"github.com/stratalog/strata/transaction/txnlog"
)

// A Coordinator runs the transactional ids whose partitions of the topic are led by the brokers of
// a cluster: a request goes to the broker that coordinates its id, wherever that is. On returns the
// coordinator of one broker.
//
// Every blocking method ends when its ctx does; what was accepted before stays accepted. A
// Coordinator has one goroutine that watches the metadata, one more for each partition of the topic
// that is just being written or loaded, and one for each broker that is owed markers by another. It
// is safe for concurrent use.
type Coordinator struct {
	*service
	route coordinator.Route[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
}

// service is what the Coordinators of a process share.
type service struct {
	cfg     Config
	core    lifecycle.Config
	brokers brokers
	runtime *runtime
	sender  *sender
	ctx     context.Context // done when closing
	cancel  context.CancelFunc
	closing sync.Once
	unhold  func()         // ends HoldTransactionsWith; nil: there is none
	wg      sync.WaitGroup // the watcher, and who fetches producer ids
}

type (
	runtime = coordinator.Runtime[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
	shard   = coordinator.Shard[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
	request = coordinator.Request[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
)

// NewCoordinator returns a running Coordinator over the brokers of c, which must outlive it. What
// the topic holds is loaded in the background, and transactions whose outcome was decided are
// finished; requests wait for the part they need. It returns an error only for a cfg that makes no
// sense: *topic.ConfigError, or replication.ErrInvalidReplicationFactor if there are fewer brokers
// than Topic.Replicas and no topic yet; or if a Version that the cluster does not have cannot be
// stored, for which it waits.
func NewCoordinator(c *replication.Cluster, cfg Config) (*Coordinator, error) {
	wanted := cfg.Version
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	states, err := newStates(c, cfg.Topic)
	if err != nil {
		return nil, fmt.Errorf("Topic.Replicas: %w", err)
	}
	if cfg.Version, err = states.agree(wanted, cfg.Version); err != nil {
		return nil, err
	}
	made := newCoordinator(states, c, cfg)
	made.unhold = c.HoldTransactionsWith(made.runtime.Hold)
	return made, nil
}

// newCoordinator takes a cfg with its defaults.
func newCoordinator(states coordinator.Store, b brokers, cfg Config) *Coordinator {
	s := &service{cfg: cfg, brokers: b}
	s.core = lifecycle.Config{Version: cfg.Version, MaxTimeout: cfg.MaxTimeout, Expiration: cfg.Expiration}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.runtime = coordinator.New(s.kind(), states, coordinator.Config{Topic: txnlog.Topic, ExpiryInterval: cfg.ExpiryInterval,
		MaxBatchBytes: cfg.Topic.MaxBatchBytes, Logger: cfg.Logger, Notify: s.told})
	s.sender = newSender(s.ctx, b, s)
	s.wg.Go(s.watch)
	return s.at(coordinator.AnyBroker)
}

// at returns the Coordinator of a broker, or of all.
func (s *service) at(broker int32) *Coordinator {
	return &Coordinator{s, coordinator.Route[*lifecycle.Machine, lifecycle.Event, txnlog.Record]{Runtime: s.runtime, Broker: broker}}
}

// kind tells the runtime of transactional ids.
func (s *service) kind() coordinator.Kind[*lifecycle.Machine, lifecycle.Event, txnlog.Record] {
	return coordinator.Kind[*lifecycle.Machine, lifecycle.Event, txnlog.Record]{
		New:       func(id string) *lifecycle.Machine { return lifecycle.New(id, &s.core) },
		ID:        func(r txnlog.Record) string { return r.ID },
		Partition: txnlog.PartitionFor,
		Encode: func(r txnlog.Record) (key, value []byte) {
			if r.Value != nil {
				value = r.Value.AppendTo(nil, s.core.Version)
			}
			return txnlog.AppendKey(nil, r.ID), value
		},
		Decode: txnlog.ParseRecord,
		Tick:   lifecycle.EventTick{}, Expire: lifecycle.EventExpire{}, Loaded: lifecycle.EventLoaded{},
		Cancel: func(t machine.Ticket) lifecycle.Event { return lifecycle.EventCancel{Ticket: t} },
	}
}

// Close has the markers written of transactions whose end was confirmed, then ends every waiting
// call with ErrClosed and returns when the last goroutine has ended. What was under way may or may
// not be stored. Markers of partitions that cannot be written to, or not within a second, are left
// to the next Coordinator. It is idempotent and safe to call concurrently; the cluster is not
// closed.
func (s *service) Close() error {
	s.closing.Do(func() {
		s.sender.close(s.cancel)
		s.runtime.Close()
		s.wg.Wait()
	})
	if s.unhold != nil { // last: what was accepted may be written until then
		s.unhold()
	}
	return nil
}

// told is what the runtime tells: markers to be written, now that it is committed that they are, or
// that the end of a transaction needs a producer id.
func (s *service) told(from coordinator.ShardID, what any) {
	switch what := what.(type) {
	case *lifecycle.Markers:
		s.sender.owe(from, what)
	case lifecycle.NeedsProducerID:
		s.wg.Go(func() { s.tickWithID(from, what.ID) })
	}
}

// tickWithID gives a transaction that has taken too long the producer id that its end needs. If
// there is none to be had, the machine asks again.
func (s *service) tickWithID(from coordinator.ShardID, id string) {
	newID, _, err := s.brokers.InitProducerID(s.ctx)
	if err != nil {
		s.cfg.Logger.Warn("no producer id for a transaction that has timed out", "transactional_id", id, "err", err)
		return
	}
	s.tell(from, id, lifecycle.EventTick{NewID: &newID})
}

// tell implements debtor.
func (s *service) tell(to coordinator.ShardID, id string, ev lifecycle.Event) {
	if sh, err := s.runtime.Shard(to.Partition); err == nil && sh.ID() == to {
		sh.Tell(id, ev)
	}
}

// isOver implements debtor.
func (s *service) isOver(id coordinator.ShardID) bool {
	sh, err := s.runtime.Shard(id.Partition)
	return err != nil || sh.ID() != id
}

// watch follows the metadata: who leads the partitions of the topic, which are loaded and unloaded
// accordingly, and who leads partitions that are owed markers.
func (s *service) watch() {
	for version := int64(-1); s.ctx.Err() == nil; {
		if _, err := s.runtime.Partitions(s.ctx, false); err != nil {
			s.cfg.Logger.Debug("topic was not found", "topic", txnlog.Topic, "err", err) // a request looks again, and tells
		}
		s.runtime.Follow()
		s.sender.again()
		next, err := s.brokers.WaitMetadata(s.ctx, version)
		if err != nil {
			return // it is closing
		}
		version = next
	}
}
