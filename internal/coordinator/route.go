package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/partition"
)

// AnyBroker is the Broker of a Route to the leaders of all partitions.
const AnyBroker = -1

// A Route sends requests to the Shards of a Runtime: to the present leader of a machine's
// partition, or to one Broker only, with machine.ErrNotLeader for partitions that it does not lead.
// It is a value, and safe for concurrent use.
type Route[M machine.Machine[E, R], E, R any] struct {
	Runtime *Runtime[M, E, R]
	Broker  int32
}

// A Question addresses a request to one machine.
type Question struct {
	ID     string
	Create bool  // create the topic if it does not exist
	Absent error // the error if the topic does not exist and is not created

	// Once is set for requests that must not run twice: they are not repeated if their records may
	// be stored.
	Once bool

	// Txn is the transaction of the request's records, which is checked first; nil if none.
	Txn *partition.TxnWrite
}

// While the leader of a partition changes, requests look for the coordinator again, for up to
// MoveTimeout. The pauses grow from firstPause to LongestPause.
const (
	firstPause   = time.Millisecond
	LongestPause = 100 * time.Millisecond
	MoveTimeout  = 10 * time.Second
)

// Ask runs begin at the machine's shard and returns the reply. If the machine moves to another
// shard meanwhile, it runs begin again there, as a client would repeat its request. A Route to one
// broker leaves that to its clients.
func (r Route[M, E, R]) Ask(ctx context.Context, q Question, begin func(*Request[M, E, R])) (any, error) {
	var giveUp, began time.Time // of repeated attempts; the first one needs no clock
	for pause := firstPause; ; pause = min(2*pause, LongestPause) {
		s, err := r.Shard(ctx, q.ID, q.Create)
		if err == nil && s == nil {
			return nil, q.Absent
		}
		var answer any
		switch {
		case err != nil:
		case q.Txn != nil:
			answer, err = s.doInTxn(ctx, q.ID, *q.Txn, begin)
		default:
			answer, err = s.Do(ctx, q.ID, begin)
		}
		if !r.AsksAgain(q, err) {
			return answer, err
		}
		switch now := time.Now(); {
		case giveUp.IsZero(), now.Sub(began) >= MoveTimeout:
			// the attempt waited at a coordinator
			giveUp, pause = now.Add(MoveTimeout), firstPause
		case !now.Before(giveUp):
			return nil, err
		}
		select {
		case <-time.After(pause):
			began = time.Now()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-r.Runtime.ctx.Done():
			return nil, machine.ErrClosed
		}
	}
}

// AsksAgain reports whether a request that ended with err is to run again at the machine's next
// shard.
func (r Route[M, E, R]) AsksAgain(q Question, err error) bool {
	return r.Broker == AnyBroker && errors.Is(err, machine.ErrMoving) && !(q.Once && errors.Is(err, machine.ErrUncertain))
}

// Partition returns the partition of a machine. Without a topic it creates one if create is set;
// otherwise it returns -1, or machine.ErrNotLeader on a Route to one broker.
func (r Route[M, E, R]) Partition(ctx context.Context, id string, create bool) (int32, error) {
	n, err := r.Runtime.Partitions(ctx, create && r.Broker == AnyBroker)
	switch {
	case err != nil:
		return -1, err
	case n == 0 && r.Broker != AnyBroker:
		return -1, machine.ErrNotLeader
	case n == 0:
		return -1, nil
	}
	return r.Runtime.kind.Partition(id, n), nil
}

// Shard returns the shard of a machine; nil if the topic does not exist and create is not set.
func (r Route[M, E, R]) Shard(ctx context.Context, id string, create bool) (*Shard[M, E, R], error) {
	p, err := r.Partition(ctx, id, create)
	if err != nil || p < 0 {
		return nil, err
	}
	return r.ShardOf(p)
}

// ShardOf returns the shard of a partition, one of Runtime.Partitions.
func (r Route[M, E, R]) ShardOf(p int32) (*Shard[M, E, R], error) {
	s, err := r.Runtime.Shard(p)
	if r.Broker != AnyBroker && (s == nil && errors.Is(err, machine.ErrMoving) || s != nil && s.led.Broker != r.Broker) {
		return nil, machine.ErrNotLeader
	}
	return s, err
}

// Each calls f with the Route's shards, and joins the errors: a partition without a leader, or one
// that cannot be loaded, does not stop it.
func (r Route[M, E, R]) Each(ctx context.Context, f func(*Shard[M, E, R]) error) error {
	n, err := r.Runtime.Partitions(ctx, false)
	if err != nil {
		return err
	}
	var errs []error
	for p := range n {
		s, err := r.Runtime.Shard(p)
		switch {
		case r.Broker == AnyBroker:
		case s == nil && errors.Is(err, machine.ErrMoving), s != nil && s.led.Broker != r.Broker:
			continue // led by another broker, or by none
		}
		if err == nil {
			err = f(s)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("partition %d of %s: %w", p, r.Runtime.cfg.Topic, err))
		}
	}
	return errors.Join(errs...)
}
