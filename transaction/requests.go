package transaction

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// On returns the coordinator of one broker, as clients find it at that broker's address. A request
// for an id that another broker coordinates, or none, is refused with ErrNotCoordinator, where c
// hands it on; List tells of the ids that this broker coordinates. It never makes the topic: before
// FindCoordinator has, all ids are coordinated elsewhere.
//
// It is a view of c, made at no cost: it lives as long as c does and need not be closed.
func (c *Coordinator) On(broker int32) *Coordinator { return c.at(max(broker, 0)) }

// Version returns the level of the feature transaction.version that c works at.
func (c *Coordinator) Version() int16 { return c.cfg.Version }

// FindCoordinator returns the broker that coordinates a transactional id, whether or not there is
// such an id. The topic is made if there is none. It returns ErrInvalidID, or
// ErrCoordinatorNotAvailable while the partition that the id's state is kept in has no leader.
// Kafka: FindCoordinator of key type 1.
func (c *Coordinator) FindCoordinator(ctx context.Context, id string) (broker int32, err error) {
	if err := checkID(id); err != nil {
		return -1, err
	}
	s, err := c.at(coordinator.AnyBroker).route.Shard(ctx, id, true)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrCoordinatorNotAvailable, err)
	}
	return s.Leadership().Broker, nil
}

// checkID refuses ids that cannot be stored.
func checkID(id string) error {
	if id == "" || len(id) > math.MaxInt16 {
		return fmt.Errorf("%w: %d bytes long, not 1 to %d", ErrInvalidID, len(id), math.MaxInt16)
	}
	return nil
}

// InitProducerID gives a producer its identity: a new one, with NoProducer, fences whoever had the
// id before; one that goes on after an error names the identity that it had. timeout, at least 1
// ms, is that of the transactions to come. The identity is durable when it is returned. While a
// transaction of the id is under way it is aborted, and until that is marked everywhere the answer
// is ErrConcurrent: ask again.
//
// Errors: ErrInvalidID, ErrInvalidTimeout, ErrProducerFenced, ErrConcurrent, or those of a
// coordinator that moves: ErrNotCoordinator, ErrCoordinatorNotAvailable. Kafka: InitProducerId.
func (c *Coordinator) InitProducerID(ctx context.Context, id string, timeout time.Duration, before Producer) (Producer, error) {
	v, err := c.withID(ctx, question{id: id, create: true}, func(newID *int64, to machine.Ticket) lifecycle.Event {
		return lifecycle.EventInit{Timeout: timeout, ProducerID: before.ID, Epoch: before.Epoch, NewID: newID, To: to}
	})
	return producerOr(v, err)
}

// An AddRequest names partitions of a transaction.
type AddRequest struct {
	ID         string
	Producer   Producer
	Partitions []record.TopicPartition
	Version    int16 // transaction.version of the client: 0 or 2
}

// AddPartitions adds partitions to the transaction, which begins with the first. Nothing may be
// written to them before it returns. Whether they exist is for the caller to find out: a partition
// that does not is part of the transaction without a trace.
//
// Errors: ErrInvalidID, ErrInvalidProducerMapping, ErrProducerFenced, ErrConcurrent, ErrTooLarge,
// ErrNotCoordinator, ErrCoordinatorNotAvailable. Kafka: AddPartitionsToTxn.
func (c *Coordinator) AddPartitions(ctx context.Context, r AddRequest) error {
	return c.addBy(ctx, r, time.Time{})
}

// addBy is AddPartitions that waits until a time, if that is to come, while the transaction before
// is being ended: ErrConcurrent is its answer only then.
func (c *Coordinator) addBy(ctx context.Context, r AddRequest, until time.Time) error {
	_, err := c.existing(ctx, r.ID, func(to machine.Ticket) lifecycle.Event {
		return lifecycle.EventAdd{ProducerID: r.Producer.ID, Epoch: r.Producer.Epoch, Partitions: r.Partitions, Version: r.Version, Until: until, To: to}
	})
	return err
}

// VerifyPartitions returns for each partition nil if it is part of the transaction, else
// ErrAbortable. Errors are those of AddPartitions. Kafka: AddPartitionsToTxn with verify_only.
func (c *Coordinator) VerifyPartitions(ctx context.Context, r AddRequest) ([]error, error) {
	v, err := c.existing(ctx, r.ID, func(to machine.Ticket) lifecycle.Event {
		return lifecycle.EventVerify{ProducerID: r.Producer.ID, Epoch: r.Producer.Epoch, Partitions: r.Partitions, To: to}
	})
	errs, _ := v.([]error)
	return errs, err
}

// AddOffsets adds the offsets of a group to the transaction, by the partition that they are kept
// in. Errors are those of AddPartitions, and of Config.OffsetsPartition. Kafka: AddOffsetsToTxn.
func (c *Coordinator) AddOffsets(ctx context.Context, r AddRequest, group string) error {
	if c.cfg.OffsetsPartition == nil {
		return fmt.Errorf("transaction: %w: no groups", errors.ErrUnsupported)
	}
	tp, err := c.cfg.OffsetsPartition(ctx, group)
	if err != nil {
		return err
	}
	r.Partitions = []record.TopicPartition{tp}
	return c.AddPartitions(ctx, r)
}

// An EndRequest says what is to become of a transaction.
type EndRequest struct {
	ID       string
	Producer Producer
	Commit   bool
	Version  int16 // transaction.version of the client: 0 or 2
}

// End decides the outcome of the transaction, which is durable when End returns; readers see it
// partition by partition. It returns the identity that a client of version 2 goes on with, its
// sequences from 0, and NoProducer to an older one. ErrConcurrent says that the same is being done
// already: ask again.
//
// Errors: ErrInvalidID, ErrInvalidProducerMapping, ErrProducerFenced, ErrInvalidState,
// ErrConcurrent, ErrNotCoordinator, ErrCoordinatorNotAvailable. Kafka: EndTxn.
func (c *Coordinator) End(ctx context.Context, r EndRequest) (Producer, error) {
	v, err := c.withID(ctx, question{id: r.ID}, func(newID *int64, to machine.Ticket) lifecycle.Event {
		return lifecycle.EventEnd{ProducerID: r.Producer.ID, Epoch: r.Producer.Epoch, Commit: r.Commit, Version: r.Version, NewID: newID, To: to}
	})
	return producerOr(v, err)
}

// WaitEnded returns when no transaction of an id is being ended: at once, if the outcome of the
// last one is not decided, or once its markers are written in all of its partitions. Readers see
// all of it then. It waits as long as ctx, for partitions without a leader, too.
//
// Errors: ErrInvalidID, ErrNotFound if there is no such id, those of a coordinator that moves, and
// ctx's.
func (c *Coordinator) WaitEnded(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	for {
		_, err := c.route.Ask(ctx, coordinator.Question{ID: id, Absent: ErrNotFound}, func(r *request) {
			if _, ok := r.Get(id); ok {
				r.Step(id, lifecycle.EventAwaitEnd{Until: r.Now.Add(endWatch), To: r.Ticket})
			} else {
				r.Answer(nil, ErrNotFound)
			}
		})
		if !errors.Is(err, ErrConcurrent) {
			return err
		}
	}
}

// endWatch is how long the question of a WaitEnded is kept before it is asked again: that of a
// caller who has gone is forgotten then at the latest.
const endWatch = time.Minute

func producerOr(v any, err error) (Producer, error) {
	if p, ok := v.(Producer); ok && err == nil {
		return p, nil
	}
	return NoProducer, err
}

// A question is a request for the coordinator of an id.
type question struct {
	id     string
	create bool // makes the topic and the id if there are none
}

// existing steps an id that must exist.
func (c *Coordinator) existing(ctx context.Context, id string, event func(machine.Ticket) lifecycle.Event) (any, error) {
	return c.ask(ctx, question{id: id}, event)
}

// withID is ask for a request that may need a producer id: it is repeated with one then.
func (c *Coordinator) withID(ctx context.Context, q question, event func(newID *int64, to machine.Ticket) lifecycle.Event) (any, error) {
	v, err := c.ask(ctx, q, func(to machine.Ticket) lifecycle.Event { return event(nil, to) })
	if !errors.Is(err, lifecycle.ErrNoProducerID) {
		return v, err
	}
	newID, _, err := c.brokers.InitProducerID(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCoordinatorNotAvailable, err)
	}
	return c.ask(ctx, q, func(to machine.Ticket) lifecycle.Event { return event(&newID, to) })
}

// ask steps an id at its coordinator, and returns the answer.
func (c *Coordinator) ask(ctx context.Context, q question, event func(machine.Ticket) lifecycle.Event) (any, error) {
	if err := checkID(q.id); err != nil {
		return nil, err
	}
	whole := coordinator.Question{ID: q.id, Create: q.create, Absent: ErrInvalidProducerMapping}
	return c.route.Ask(ctx, whole, func(r *request) {
		if _, ok := r.Get(q.id); ok || q.create {
			r.Step(q.id, event(r.Ticket))
		} else {
			r.Answer(nil, ErrInvalidProducerMapping)
		}
	})
}
