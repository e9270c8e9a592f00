package share

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/share/internal/groupstate"
)

// InitializeState creates the state of a share-partition, or resets it, with a start offset; -1
// means that the leader of the partition determines it. With a state epoch above the present one,
// pending writes for it are discarded. It creates the topic if there is none. It returns
// ErrFencedStateEpoch for an earlier state epoch, and ErrFull as BeginState does. Kafka:
// InitializeShareGroupState.
func (c *Coordinator) InitializeState(ctx context.Context, key Key, stateEpoch int32, start int64) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventInitialize{StateEpoch: stateEpoch, Start: start, Bound: memory.BoundOf(ctx), To: to}
	})
	c.begunAnew(key, err)
	return err
}

// BeginState creates the state of a share-partition if there is none, with a start offset that the
// leader of the partition determines. It creates the topic if there is none. It returns ErrFull
// for a client that is served with a bound, and has no memory left within it.
func (c *Coordinator) BeginState(ctx context.Context, key Key) error {
	return c.begin(ctx, key, -1)
}

func (c *Coordinator) begin(ctx context.Context, key Key, start int64) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventBegin{Start: start, Bound: memory.BoundOf(ctx), To: to}
	})
	return err
}

// ResetState resets a share-partition to a start offset; -1 means that the leader of the partition
// determines it. Members lose the records that they have acquired, and acknowledgements are
// discarded. It creates the topic if there is none. It returns ErrFull as BeginState does.
func (c *Coordinator) ResetState(ctx context.Context, key Key, start int64) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventReset{Start: start, Bound: memory.BoundOf(ctx), To: to}
	})
	c.begunAnew(key, err)
	return err
}

// ReadState returns the stored state of a share-partition, for the leader of the partition in a
// leader epoch: afterwards writes of earlier leader epochs are rejected. The result must not be
// written to. Errors: ErrNotInitialized, ErrFencedLeaderEpoch. Kafka: ReadShareGroupState.
func (c *Coordinator) ReadState(ctx context.Context, key Key, leaderEpoch int32) (*State, error) {
	return stateOr(c.ask(ctx, key, false, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventRead{LeaderEpoch: leaderEpoch, To: to}
	}))
}

// StateSummary is ReadState for callers other than the leader: it does not fence earlier leader
// epochs. Kafka: ReadShareGroupStateSummary.
func (c *Coordinator) StateSummary(ctx context.Context, key Key) (*State, error) {
	return stateOr(c.ask(ctx, key, false, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventSummary{To: to}
	}))
}

func stateOr(v any, err error) (*State, error) {
	if s, ok := v.(*State); ok && err == nil {
		return s, nil
	}
	return nil, err
}

// A StateChange is the argument of WriteState.
type StateChange struct {
	LeaderEpoch, StateEpoch int32            // epochs of the decision; -1: any
	Start                   int64            // start offset; -1: unchanged
	Complete                int32            // number of offsets from Start whose delivery is complete; -1: unknown
	Batches                 []sharelog.Batch // replace the stored batches they overlap; sorted by offset, without overlaps; taken
}

// WriteState stores a change; it is durable when WriteState returns. After these errors nothing is
// stored: ErrNotInitialized, ErrFencedLeaderEpoch, ErrFencedStateEpoch, ErrTooLarge. Kafka:
// WriteShareGroupState.
func (c *Coordinator) WriteState(ctx context.Context, key Key, w StateChange) error {
	_, err := c.ask(ctx, key, false, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventWrite{LeaderEpoch: w.LeaderEpoch, StateEpoch: w.StateEpoch, Start: w.Start, Complete: w.Complete, Batches: w.Batches, To: to}
	})
	return err
}

// DeleteState deletes the state of a share-partition, durably. It is not an error if there is none.
// Kafka: DeleteShareGroupState.
func (c *Coordinator) DeleteState(ctx context.Context, key Key) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event { return groupstate.EventDelete{To: to} })
	c.begunAnew(key, err)
	return err
}

// begunAnew ends the leader of a share-partition whose state was changed, with result err: its
// state is out of date, unless the change was rejected. After other errors it may be stored.
func (c *Coordinator) begunAnew(key Key, err error) {
	if errors.Is(err, ErrFencedStateEpoch) || errors.Is(err, sharelog.ErrMalformed) {
		return
	}
	c.mu.Lock()
	c.resets++ // a leader that is loading may have read the state before
	l := c.leaders[key]
	c.mu.Unlock()
	if l != nil {
		l.end(fmt.Errorf("%w: the share-partition was reset", ErrFencedStateEpoch))
	}
}

// ask steps a share-partition at its coordinator, and returns the reply.
func (c *Coordinator) ask(ctx context.Context, key Key, create bool, event func(machine.Ticket) groupstate.Event) (any, error) {
	id := key.ID()
	if again, err := sharelog.ParseID(id); err != nil || again != key || len(key.Group) > maxGroup {
		return nil, fmt.Errorf("%w: %q cannot be stored", sharelog.ErrMalformed, id)
	}
	return c.route.Ask(ctx, coordinator.Question{ID: id, Create: create, Absent: ErrNotInitialized}, func(r *request) {
		r.Step(id, event(r.Ticket))
	})
}

// maxGroup bounds the length of a group id, in bytes.
const maxGroup = 32767
