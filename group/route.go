package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/internal/machine"
)

// A question is a request for the coordinator of a group.
type question struct {
	group  string
	create bool  // makes the offsets topic if there is none
	absent error // the answer if there is none and it is not made

	// once says that the same request twice is not the same as once: it is not repeated if what it
	// wrote may be stored.
	once bool
}

// While the leader of a group's partition changes, requests look for the coordinator again after a
// pause that grows from the first to the longest, for as long as moveTimeout.
const (
	firstPause   = time.Millisecond
	longestPause = 100 * time.Millisecond
	moveTimeout  = 10 * time.Second
)

// ask runs begin at the shard that coordinates the group, and returns its answer. If the group
// moves to another coordinator meanwhile, it is run again there, as a client would send its request
// again; the Coordinator of one broker leaves that to its clients.
func (c *Coordinator) ask(ctx context.Context, q question, begin func(*request)) (any, error) {
	var giveUp, began time.Time // of repeated attempts; the first one needs no clock
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		s, err := c.shard(ctx, q.group, q.create)
		if err == nil && s == nil {
			return nil, q.absent
		}
		var answer any
		if err == nil {
			answer, err = s.Do(ctx, q.group, begin)
		}
		if !c.asksAgain(q, err) {
			return answer, err
		}
		switch now := time.Now(); {
		case giveUp.IsZero(), now.Sub(began) >= moveTimeout:
			// it has waited at a coordinator meanwhile
			giveUp, pause = now.Add(moveTimeout), firstPause
		case !now.Before(giveUp):
			return nil, err
		}
		select {
		case <-time.After(pause):
			began = time.Now()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// asksAgain reports whether the request that ended with err is for the group's next coordinator.
func (c *Coordinator) asksAgain(q question, err error) bool {
	return c.broker == anyBroker && errors.Is(err, machine.ErrMoving) && !(q.once && errors.Is(err, machine.ErrUncertain))
}

// partition returns the partition of the offsets topic that a group's state is kept in. If there is
// no offsets topic it is made if create is set; otherwise the answer is -1, or ErrNotCoordinator
// from the Coordinator of one broker: nobody coordinates anything yet.
func (c *Coordinator) partition(ctx context.Context, group string, create bool) (int32, error) {
	n, err := c.runtime.Partitions(ctx, create && c.broker == anyBroker)
	switch {
	case err != nil:
		return -1, err
	case n == 0 && c.broker != anyBroker:
		return -1, ErrNotCoordinator
	case n == 0:
		return -1, nil
	}
	return offsets.PartitionFor(group, n), nil
}

// shard returns the shard that coordinates a group; nil if there is no offsets topic and create is
// not set.
func (c *Coordinator) shard(ctx context.Context, group string, create bool) (*shard, error) {
	p, err := c.partition(ctx, group, create)
	if err != nil || p < 0 {
		return nil, err
	}
	s, err := c.runtime.Shard(p)
	if c.broker != anyBroker && (s == nil && errors.Is(err, machine.ErrMoving) || s != nil && s.Leadership().Broker != c.broker) {
		return nil, ErrNotCoordinator
	}
	return s, err
}

// eachShard calls f with the shards that c answers for, and joins the errors: a partition that has
// no leader, or cannot be loaded, does not keep the others from being asked.
func (c *Coordinator) eachShard(ctx context.Context, f func(*shard) error) error {
	n, err := c.runtime.Partitions(ctx, false)
	if err != nil {
		return err
	}
	var errs []error
	for p := range n {
		s, err := c.runtime.Shard(p)
		switch {
		case c.broker == anyBroker:
		case s == nil && errors.Is(err, machine.ErrMoving), s != nil && s.Leadership().Broker != c.broker:
			continue // another broker's, or nobody's
		}
		if err == nil {
			err = f(s)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("partition %d of the offsets topic: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
