package share

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/share/internal/groupstate"
	"github.com/stratalog/strata/share/sharelog"
)

// InitializeState begins a share-partition at an offset, -1 meaning that who leads the partition is
// to find it, or begins it anew there: with a state epoch above the present one nothing that is
// under way for it is written any more. The topic is made if there is none. It returns
// ErrFencedStateEpoch for an earlier state epoch. Kafka: InitializeShareGroupState.
func (c *Coordinator) InitializeState(ctx context.Context, key Key, stateEpoch int32, start int64) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventInitialize{StateEpoch: stateEpoch, Start: start, To: to}
	})
	c.begunAnew(key, err)
	return err
}

// BeginState begins a share-partition that there is none of, where who leads the partition finds
// that it begins; one that there is stays as it is. The topic is made if there is none.
func (c *Coordinator) BeginState(ctx context.Context, key Key) error {
	return c.begin(ctx, key, -1)
}

func (c *Coordinator) begin(ctx context.Context, key Key, start int64) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventBegin{Start: start, To: to}
	})
	return err
}

// ResetState begins a share-partition anew at an offset, -1 meaning that who leads the partition is
// to find it: what members have acquired of it they have lost, and whatever was done is forgotten.
// The topic is made if there is none.
func (c *Coordinator) ResetState(ctx context.Context, key Key, start int64) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventReset{Start: start, To: to}
	})
	c.begunAnew(key, err)
	return err
}

// ReadState returns what is stored of a share-partition, for who leads the partition in a leader
// epoch: after that nothing of an earlier leader epoch is written. The result must not be written
// to. Errors: ErrNotInitialized, ErrFencedLeaderEpoch. Kafka: ReadShareGroupState.
func (c *Coordinator) ReadState(ctx context.Context, key Key, leaderEpoch int32) (*State, error) {
	return stateOr(c.ask(ctx, key, false, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventRead{LeaderEpoch: leaderEpoch, To: to}
	}))
}

// StateSummary is ReadState for anybody: it fences nobody. Kafka: ReadShareGroupStateSummary.
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

// A StateChange is what WriteState stores.
type StateChange struct {
	LeaderEpoch, StateEpoch int32            // in which it was decided; -1: any
	Start                   int64            // the start offset; -1: as before
	Complete                int32            // offsets from Start on whose delivery is complete; -1: not known
	Batches                 []sharelog.Batch // that prevail over what there is; by offset, without overlaps; taken
}

// WriteState stores a change; it is durable when WriteState returns. Errors: ErrNotInitialized,
// ErrFencedLeaderEpoch, ErrFencedStateEpoch, ErrTooLarge, with nothing stored. Kafka:
// WriteShareGroupState.
func (c *Coordinator) WriteState(ctx context.Context, key Key, w StateChange) error {
	_, err := c.ask(ctx, key, false, func(to machine.Ticket) groupstate.Event {
		return groupstate.EventWrite{LeaderEpoch: w.LeaderEpoch, StateEpoch: w.StateEpoch, Start: w.Start, Complete: w.Complete, Batches: w.Batches, To: to}
	})
	return err
}

// DeleteState forgets a share-partition, durably; it is no error if there is none. Kafka:
// DeleteShareGroupState.
func (c *Coordinator) DeleteState(ctx context.Context, key Key) error {
	_, err := c.ask(ctx, key, true, func(to machine.Ticket) groupstate.Event { return groupstate.EventDelete{To: to} })
	c.begunAnew(key, err)
	return err
}

// begunAnew ends who hands out the records of a share-partition, whose state was changed with err:
// what it knows is over, unless the change was refused. With other errors it may be stored.
func (c *Coordinator) begunAnew(key Key, err error) {
	if errors.Is(err, ErrFencedStateEpoch) || errors.Is(err, sharelog.ErrMalformed) {
		return
	}
	c.mu.Lock()
	c.resets++ // one that is being loaded may have read what was before
	l := c.leaders[key]
	c.mu.Unlock()
	if l != nil {
		l.end(fmt.Errorf("%w: the share-partition has begun anew", ErrFencedStateEpoch))
	}
}

// ask steps a share-partition at its coordinator, and returns the answer.
func (c *Coordinator) ask(ctx context.Context, key Key, create bool, event func(machine.Ticket) groupstate.Event) (any, error) {
	id := key.ID()
	if again, err := sharelog.ParseID(id); err != nil || again != key || len(key.Group) > maxGroup {
		return nil, fmt.Errorf("%w: %q cannot be stored", sharelog.ErrMalformed, id)
	}
	return c.route.Ask(ctx, coordinator.Question{ID: id, Create: create, Absent: ErrNotInitialized}, func(r *request) {
		r.Step(id, event(r.Ticket))
	})
}

// maxGroup is how long the id of a group may be.
const maxGroup = 32767
