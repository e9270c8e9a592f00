package transaction

import (
	"context"
	"fmt"
	"sync"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// A Coordinator coordinates the transactional ids of a cluster. It runs the ids in partitions of
// the state topic that are led by the cluster's brokers, and sends each request to the broker that
// coordinates its id. On returns the coordinator of one broker.
//
// Every blocking method returns when its ctx is done; work accepted earlier stays accepted. A
// Coordinator has one goroutine that watches the metadata, one for each partition of the topic that
// is currently being written or loaded, and one for each pair of brokers with pending markers. It
// is safe for concurrent use.
type Coordinator struct {
	*service
	route coordinator.Route[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
}

// service is the shared state of the Coordinators of a process.
type service struct {
	cfg     Config
	core    lifecycle.Config
	brokers brokers
	runtime *runtime
	sender  *sender
	ctx     context.Context // done when closing
	cancel  context.CancelFunc
	closing sync.Once
	memory  *memory.Budget // of all coordinators of the cluster
	unhold  func()         // ends HoldTransactionsWith; nil: there is none
	wg      sync.WaitGroup // goroutines of watch and tickWithID
}

type (
	runtime = coordinator.Runtime[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
	shard   = coordinator.Shard[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
	request = coordinator.Request[*lifecycle.Machine, lifecycle.Event, txnlog.Record]
)

// NewCoordinator returns a running Coordinator over the brokers of c, which must outlive it. The
// state topic is loaded in the background, and transactions with a decided outcome are completed;
// requests wait for the part they need. It returns an error only for an invalid cfg:
// *topic.ConfigError, or replication.ErrInvalidReplicationFactor if there are fewer brokers than
// Topic.Replicas and no topic yet. It stores a new Version in the cluster, waits for that, and
// returns an error if it fails.
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
	made := newCoordinator(states, c, c.CoordinatorMemory(), cfg)
	made.unhold = c.HoldTransactionsWith(made.runtime.Hold)
	return made, nil
}

// newCoordinator returns a Coordinator. cfg has its defaults.
func newCoordinator(states coordinator.Store, b brokers, budget *memory.Budget, cfg Config) *Coordinator {
	s := &service{cfg: cfg, brokers: b, memory: budget}
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

// kind returns the runtime's description of transactional ids.
func (s *service) kind() coordinator.Kind[*lifecycle.Machine, lifecycle.Event, txnlog.Record] {
	return coordinator.Kind[*lifecycle.Machine, lifecycle.Event, txnlog.Record]{
		New: func(id string) *lifecycle.Machine {
			m := lifecycle.New(id, &s.core)
			m.ChargeTo(s.memory.NewCharge())
			return m
		},
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

// Close first waits for the markers of transactions whose end was confirmed. It then ends every
// waiting call with ErrClosed and returns when the last goroutine has ended. Pending changes may or
// may not be stored. Markers that cannot be written within a second are left to the next
// Coordinator. It is idempotent and safe to call concurrently; the cluster is not closed.
func (s *service) Close() error {
	s.closing.Do(func() {
		s.sender.close(s.cancel)
		s.runtime.Close()
		s.wg.Wait()
	})
	if s.unhold != nil { // last: accepted records may be written until then
		s.unhold()
	}
	return nil
}

// told receives the runtime's notices: markers of a transaction with a committed
// outcome, or an id that needs a producer id to end its transaction.
func (s *service) told(from coordinator.ShardID, what any) {
	switch what := what.(type) {
	case *lifecycle.Markers:
		s.sender.owe(from, what)
	case lifecycle.NeedsProducerID:
		s.wg.Go(func() { s.tickWithID(from, what.ID) })
	}
}

// tickWithID passes a producer id to a transaction that has exceeded its timeout. If there is none,
// the machine repeats its notice.
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

// watch follows the metadata: the leaders of the topic's partitions, which are loaded and unloaded
// accordingly, and of partitions with owed markers.
func (s *service) watch() {
	for version := int64(-1); s.ctx.Err() == nil; {
		if _, err := s.runtime.Partitions(s.ctx, false); err != nil {
			s.cfg.Logger.Debug("topic was not found", "topic", txnlog.Topic, "err", err) // a request tries again, and returns the error
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
