package transaction

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// On returns the coordinator of one broker, as clients use it at that broker's address. It rejects
// a request for an id with another coordinator, or none, with ErrNotCoordinator, while c forwards
// the request. Its List returns only the ids that this broker coordinates. It never creates the
// topic: before FindCoordinator has created it, every request is rejected.
//
// The result is a view of c and costs nothing: it is valid as long as c, and need not be closed.
func (c *Coordinator) On(broker int32) *Coordinator { return c.at(max(broker, 0)) }

// Version returns c's level of the feature transaction.version.
func (c *Coordinator) Version() int16 { return c.cfg.Version }

// Config returns the configuration of c with its defaults filled in.
func (c *Coordinator) Config() Config { return c.cfg }

// FindCoordinator returns the broker that coordinates a transactional id, whether or not the id
// exists. It creates the topic if there is none. It returns ErrInvalidID, or
// ErrCoordinatorNotAvailable while the partition with the id's state has no leader. Kafka:
// FindCoordinator of key type 1.
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

// checkID rejects ids that cannot be stored.
func checkID(id string) error {
	if id == "" || len(id) > math.MaxInt16 {
		return fmt.Errorf("%w: %d bytes long, not 1 to %d", ErrInvalidID, len(id), math.MaxInt16)
	}
	return nil
}

// InitProducerID returns the identity of a producer. before is NoProducer for a new producer, which
// fences the previous one with this id. A producer that continues after an error passes its present
// identity. timeout, at least 1 ms, applies to its coming transactions. The identity is durable
// when it is returned. An open transaction of the id is aborted; until its markers are in all
// partitions the error is ErrConcurrent: retry.
//
// Errors: ErrInvalidID, ErrInvalidTimeout, ErrProducerFenced, ErrConcurrent, ErrFull,
// ErrNotCoordinator, ErrCoordinatorNotAvailable. Kafka: InitProducerId.
func (c *Coordinator) InitProducerID(ctx context.Context, id string, timeout time.Duration, before Producer) (Producer, error) {
	v, err := c.withID(ctx, question{id: id, create: true}, func(newID *int64, to machine.Ticket) lifecycle.Event {
		return lifecycle.EventInit{Timeout: timeout, ProducerID: before.ID, Epoch: before.Epoch, NewID: newID, Bound: memory.BoundOf(ctx), To: to}
	})
	return producerOr(v, err)
}

// An AddRequest adds partitions to a transaction.
type AddRequest struct {
	ID         string
	Producer   Producer
	Partitions []record.TopicPartition
	Version    int16 // transaction.version of the client: 0 or 2
}

// AddPartitions adds partitions to the transaction, which begins with the first one. The caller
// must not write to them before it returns. The caller checks that the partitions exist: one that
// does not exist is added without an effect.
//
// Errors: ErrInvalidID, ErrInvalidProducerMapping, ErrProducerFenced, ErrConcurrent, ErrTooLarge,
// ErrFull, ErrNotCoordinator, ErrCoordinatorNotAvailable. Kafka: AddPartitionsToTxn.
func (c *Coordinator) AddPartitions(ctx context.Context, r AddRequest) error {
	return c.addBy(ctx, r, time.Time{})
}

// addBy is AddPartitions, except that it waits while the previous transaction is being ended. It
// returns ErrConcurrent only if that lasts beyond until, or if until is zero.
func (c *Coordinator) addBy(ctx context.Context, r AddRequest, until time.Time) error {
	_, err := c.existing(ctx, r.ID, func(to machine.Ticket) lifecycle.Event {
		return lifecycle.EventAdd{ProducerID: r.Producer.ID, Epoch: r.Producer.Epoch, Partitions: r.Partitions, Version: r.Version, Until: until, Bound: memory.BoundOf(ctx), To: to}
	})
	return err
}

// VerifyPartitions returns for each partition nil if it belongs to the transaction, else
// ErrAbortable. Errors are those of AddPartitions. Kafka: AddPartitionsToTxn with verify_only.
func (c *Coordinator) VerifyPartitions(ctx context.Context, r AddRequest) ([]error, error) {
	v, err := c.existing(ctx, r.ID, func(to machine.Ticket) lifecycle.Event {
		return lifecycle.EventVerify{ProducerID: r.Producer.ID, Epoch: r.Producer.Epoch, Partitions: r.Partitions, To: to}
	})
	errs, _ := v.([]error)
	return errs, err
}

// AddOffsets adds to the transaction the partition that stores the offsets of a group. It returns
// the errors of AddPartitions and of Config.OffsetsPartition. Kafka: AddOffsetsToTxn.
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

// An EndRequest commits or aborts a transaction.
type EndRequest struct {
	ID       string
	Producer Producer
	Commit   bool
	Version  int16 // transaction.version of the client: 0 or 2
}

// End decides the outcome of the transaction, which is durable when End returns; readers see it
// partition by partition. A client of version 2 continues with the returned identity, with sequence
// numbers from 0; for an older client the result is NoProducer. ErrConcurrent is returned while the
// transaction, or the previous one, is already being ended: retry.
//
// Errors: ErrInvalidID, ErrInvalidProducerMapping, ErrProducerFenced, ErrInvalidState,
// ErrConcurrent, ErrNotCoordinator, ErrCoordinatorNotAvailable. Kafka: EndTxn.
func (c *Coordinator) End(ctx context.Context, r EndRequest) (Producer, error) {
	v, err := c.withID(ctx, question{id: r.ID}, func(newID *int64, to machine.Ticket) lifecycle.Event {
		return lifecycle.EventEnd{ProducerID: r.Producer.ID, Epoch: r.Producer.Epoch, Commit: r.Commit, Version: r.Version, NewID: newID, To: to}
	})
	return producerOr(v, err)
}

// WaitEnded waits until no transaction of an id is being ended. It returns immediately if the
// outcome of the last one is not decided, else when its markers are in all of its partitions, so
// that readers see all of it. It waits as long as ctx allows, also for partitions without a leader.
//
// Errors: ErrInvalidID, ErrNotFound if there is no such id, ErrNotCoordinator,
// ErrCoordinatorNotAvailable, ctx's.
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

// endWatch is the time after which WaitEnded repeats its event. The event of a caller that has
// stopped waiting is dropped by then.
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
	create bool // create the topic and the id if there are none
}

// existing steps an id that must exist.
func (c *Coordinator) existing(ctx context.Context, id string, event func(machine.Ticket) lifecycle.Event) (any, error) {
	return c.ask(ctx, question{id: id}, event)
}

// withID runs a request that may need a producer id. Then it repeats the request with one.
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

// ask steps an id at its coordinator, and returns the reply.
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
