package share

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share/internal/inflight"
	"github.com/stratalog/strata/share/sharelog"
	"github.com/stratalog/strata/topic"
)

// A leader is a share-partition as who leads the partition has it, in one leader epoch: what is with
// which member. It is loaded from the coordinator and ends with the epoch, with a reset, or when a
// change cannot be stored; the next one begins with what is stored.
//
// Changes count at once. A goroutine, which lives as long as there is something to store, stores
// them in order, all that there are at a time; who acknowledges is answered when his are.
type leader struct {
	c     *Coordinator
	key   Key
	tp    record.TopicPartition
	epoch int32
	alarm alarm.Alarm // the next lock passes

	mu         sync.Mutex // guards the fields below; held to compute only
	limits     inflight.Config
	p          *inflight.Partition
	stateEpoch int32
	over       error // why it has ended; nil: it has not
	open       bool  // there was something to acquire, or room for it, when it was looked at last
	fetching   bool  // a member reads the log for what it is to acquire
	writing    bool  // the goroutine is there
	parked     []chan error
	waiters    map[chan struct{}]struct{} // of capacity 1; told when there may be something to acquire
}

// TopicPartition names a partition of a topic that may be deleted and created again.
type TopicPartition struct {
	record.TopicPartition
	TopicID topic.ID
}

// leader returns the share-partition's leader in the present epoch, which it loads if need be.
func (c *Coordinator) leader(ctx context.Context, group string, tp TopicPartition, begin beginning) (*leader, error) {
	key := Key{Group: group, TopicID: tp.TopicID, Partition: tp.Partition}
	for {
		broker, epoch, err := c.cluster.LeaderOfTopic(tp.TopicPartition, tp.TopicID)
		if err != nil {
			return nil, err
		}
		if broker < 0 {
			return nil, fmt.Errorf("%w: %s-%d has no leader", partition.ErrNotLeader, tp.Topic, tp.Partition)
		}
		c.mu.Lock()
		l := c.leaders[key]
		if l != nil && l.epoch >= epoch {
			c.mu.Unlock()
			return l, nil
		}
		loading := c.loading[key]
		if loading == nil {
			done, resets := make(chan struct{}), c.resets
			c.loading[key] = done
			c.mu.Unlock()
			if l != nil {
				l.end(fmt.Errorf("%w: leader epoch %d is over", ErrFencedLeaderEpoch, l.epoch))
			}
			l, err := c.load(ctx, key, tp.TopicPartition, epoch, begin)
			c.mu.Lock()
			stale := c.resets != resets && err == nil
			if err == nil && !stale && c.ctx.Err() == nil {
				c.leaders[key] = l
			}
			delete(c.loading, key)
			c.mu.Unlock()
			close(done)
			if c.ctx.Err() != nil {
				return nil, ErrClosed
			}
			if stale {
				continue // it may have read what was before
			}
			return l, err
		}
		c.mu.Unlock()
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// load reads what is stored. A share-partition that is new begins as begin says.
func (c *Coordinator) load(ctx context.Context, key Key, tp record.TopicPartition, epoch int32, begin beginning) (*leader, error) {
	s, err := c.ReadState(ctx, key, epoch)
	if errors.Is(err, ErrNotInitialized) && !begin.existing {
		start, err := c.startOffset(ctx, tp, begin.reset)
		if err != nil {
			return nil, err
		}
		if err := c.begin(ctx, key, start); err != nil {
			return nil, err
		}
		s, err = c.ReadState(ctx, key, epoch)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	snapshot := inflight.Snapshot{Start: s.Start}
	if s.Start < 0 { // initialised by who did not know
		if snapshot.Start, err = c.startOffset(ctx, tp, begin.reset); err != nil {
			return nil, err
		}
		if err := c.WriteState(ctx, key, StateChange{LeaderEpoch: epoch, StateEpoch: s.StateEpoch, Start: snapshot.Start}); err != nil {
			return nil, err
		}
	}
	for _, b := range s.Batches {
		snapshot.Batches = append(snapshot.Batches, inflight.Batch{First: b.First, Last: b.Last, State: inflight.State(b.State), Count: b.Count})
	}
	l := &leader{c: c, key: key, tp: tp, epoch: epoch, stateEpoch: s.StateEpoch, waiters: map[chan struct{}]struct{}{}}
	l.lookLocked()
	l.p = inflight.New(&l.limits, snapshot)
	l.alarm.Do = l.tick
	return l, nil
}

// startOffset is where a new share-partition begins.
func (c *Coordinator) startOffset(ctx context.Context, tp record.TopicPartition, reset partition.OffsetSpec) (int64, error) {
	found, err := c.cluster.ListOffsets(ctx, map[record.TopicPartition]partition.OffsetSpec{tp: reset}, partition.ReadUncommitted)
	if err == nil {
		err = found[tp].Err
	}
	if err == nil && found[tp].Offset < 0 { // nothing is as late as that
		return c.startOffset(ctx, tp, partition.Latest)
	}
	return found[tp].Offset, err
}

// end ends the leader for good. It does not wait.
func (l *leader) end(err error) {
	l.c.mu.Lock()
	if l.c.leaders[l.key] == l {
		delete(l.c.leaders, l.key)
	}
	l.c.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return
	}
	l.over = err
	l.alarm.Stop()
	for _, ch := range l.parked {
		ch <- err
	}
	l.parked = nil
	l.tellLocked()
}

// tellLocked tells those who wait for something to acquire to look again.
func (l *leader) tellLocked() {
	for ch := range l.waiters {
		select {
		case ch <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// changedLocked is called when the state may have changed: somebody else may have something to
// acquire, something may be to be stored, and the next lock may pass earlier.
func (l *leader) changedLocked() {
	if at := l.p.Deadline(); !at.IsZero() {
		l.alarm.By(at)
	}
	from, ok := l.p.Next()
	if ok && (from < l.p.End() || !l.open) {
		l.tellLocked()
	}
	l.open = ok
	if !l.writing && l.over == nil && l.c.ctx.Err() == nil {
		l.writing = true
		l.c.wg.Go(l.store)
	}
}

// lookLocked has the share-partition go by what is configured for the group now.
func (l *leader) lookLocked() {
	of := l.c.cfg.limits(l.key.Group)
	l.limits = inflight.Config{LockDuration: of.LockDuration, MaxDeliveryCount: of.MaxDeliveryCount, MaxInFlight: int64(of.MaxInFlight)}
}

// tick lets locks pass.
func (l *leader) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil {
		l.lookLocked()
		l.p.Tick(time.Now())
		l.changedLocked()
	}
}

// store is the goroutine that stores changes until there are none.
func (l *leader) store() {
	for {
		l.mu.Lock()
		d, ok := l.p.Delta()
		parked := l.parked
		l.parked = nil
		if l.over != nil || !ok {
			l.writing = false
			answer(parked, l.over)
			l.mu.Unlock()
			return
		}
		change := StateChange{LeaderEpoch: l.epoch, StateEpoch: l.stateEpoch, Start: d.Start, Complete: d.Complete}
		l.mu.Unlock()
		for _, b := range d.Batches {
			change.Batches = append(change.Batches, sharelog.Batch{First: b.First, Last: b.Last, State: int8(b.State), Count: b.Count})
		}
		err := l.c.WriteState(l.c.ctx, l.key, change)
		if err != nil && l.c.ctx.Err() != nil {
			err = ErrClosed
		}
		answer(parked, err)
		if err != nil {
			l.c.cfg.Logger.Warn("share-partition is loaded again: its state was not stored", "group", l.key.Group, "topic", l.tp.Topic, "partition", l.tp.Partition, "err", err)
			l.end(err)
		}
	}
}

func answer(parked []chan error, err error) {
	for _, ch := range parked {
		ch <- err
	}
}

// change runs f, which changes the state, and waits until that is stored.
func (l *leader) change(ctx context.Context, f func(now time.Time) error) error {
	l.mu.Lock()
	if l.over != nil {
		l.mu.Unlock()
		return l.over
	}
	l.lookLocked()
	if err := f(time.Now()); err != nil {
		l.mu.Unlock()
		return err
	}
	done := make(chan error, 1)
	l.parked = append(l.parked, done)
	l.changedLocked()
	l.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.c.ctx.Done():
		return ErrClosed
	}
}
