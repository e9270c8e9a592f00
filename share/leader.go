package share

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share/internal/inflight"
	"github.com/stratalog/strata/topic"
)

// A leader is a share-partition at its partition's leader in one leader epoch: its state, and the
// members' acquired records. It is loaded from the coordinator and ends with the epoch, or with a
// reset. The next one starts from the stored state.
//
// Changes take effect at once. A goroutine, which exists while there are changes, stores all
// present ones at a time, in order. An acknowledgement is answered when it is stored. After a
// failed write its caller gets the error, and the change is stored again: other members are not
// affected.
type leader struct {
	c     *Coordinator
	key   Key
	tp    record.TopicPartition
	epoch int32
	alarm alarm.Alarm // due when the next lock expires

	mu         sync.Mutex // guards the fields below; held to compute only
	limits     inflight.Config
	p          *inflight.Partition
	stateEpoch int32
	over       error // cause of its end; nil while it is active
	open       bool  // at the last check there were records to acquire, or room for more
	fetching   bool  // a member's fetch is reading the log
	writing    bool  // the storing goroutine is running
	left       bool  // a member has released its records since the goroutine last ended
	parked     []parked
	waiters    map[chan struct{}]struct{} // of capacity 1; notified when there may be records to acquire
}

// TopicPartition names a partition of one incarnation of a topic, which may be deleted and created
// again.
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
				l.end(fmt.Errorf("%w: leader epoch %d has ended", ErrFencedLeaderEpoch, l.epoch))
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
				continue // it may have read the state before the reset
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

// load reads the stored state. begin selects the start of a new share-partition.
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
	if s.Start < 0 { // initialised without a start offset
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

// startOffset returns the start offset of a new share-partition.
func (c *Coordinator) startOffset(ctx context.Context, tp record.TopicPartition, reset partition.OffsetSpec) (int64, error) {
	found, err := c.cluster.ListOffsets(ctx, map[record.TopicPartition]partition.OffsetSpec{tp: reset}, partition.ReadUncommitted)
	if err == nil {
		err = found[tp].Err
	}
	if err == nil && found[tp].Offset < 0 { // no record is as late as that time
		return c.startOffset(ctx, tp, partition.Latest)
	}
	return found[tp].Offset, err
}

// errUnused ends a leader of which no member holds or awaits records. All of its state is stored, so
// that the next request loads it.
var errUnused = fmt.Errorf("%w: no member holds records", ErrInvalidRecordState)

// endUnusedLocked ends the leader if it is unused, and reports whether it was. The caller calls
// remove without the lock.
func (l *leader) endUnusedLocked() bool {
	if l.over != nil || l.fetching || l.writing || len(l.parked)+len(l.waiters) > 0 || !l.p.Stored() {
		return false
	}
	l.over = errUnused
	l.alarm.Stop()
	return true
}

// endUnused ends all leaders that are unused, also those whose last locks have expired.
func (c *Coordinator) endUnused() {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.leaders))
	c.mu.Unlock()
	for _, l := range all {
		l.mu.Lock()
		unused := l.endUnusedLocked()
		l.mu.Unlock()
		if unused {
			l.remove()
		}
	}
}

// remove removes the leader from the coordinator, so that the next request loads another one.
func (l *leader) remove() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.leaders[l.key] == l {
		delete(l.c.leaders, l.key)
	}
}

// end ends the leader for good. It does not wait.
func (l *leader) end(err error) {
	l.remove()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return
	}
	l.over = err
	l.alarm.Stop()
	answer(l.parked, err)
	l.parked = nil
	l.tellLocked()
}

// tellLocked notifies the waiters for records.
func (l *leader) tellLocked() {
	for ch := range l.waiters {
		select {
		case ch <- struct{}{}:
		default: // the last notification is still there
		}
	}
}

// changedLocked is called when the state may have changed: other members may have records to
// acquire, there may be changes to store, and the next lock may expire earlier.
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

// lookLocked applies the group's present configuration to the share-partition.
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

// The pause between attempts to store a change doubles.
const (
	firstStorePause   = 10 * time.Millisecond
	longestStorePause = time.Second
)

// store is the goroutine that stores changes until there are none.
func (l *leader) store() {
	for pause := firstStorePause; ; {
		l.mu.Lock()
		d, ok := l.p.Delta()
		parked := l.parked
		l.parked = nil
		if l.over != nil || !ok {
			l.writing = false
			answer(parked, l.over)
			unused := l.left && l.endUnusedLocked()
			l.left = false
			l.mu.Unlock()
			if unused {
				l.remove()
			}
			return
		}
		change := StateChange{LeaderEpoch: l.epoch, StateEpoch: l.stateEpoch, Start: d.Start, Complete: d.Complete}
		l.mu.Unlock()
		for _, b := range d.Batches {
			change.Batches = append(change.Batches, sharelog.Batch{First: b.First, Last: b.Last, State: int8(b.State), Count: b.Count})
		}
		err := l.c.WriteState(l.c.ctx, l.key, change)
		if err == nil {
			pause = firstStorePause
			answer(parked, nil)
			continue
		}
		if l.c.ctx.Err() != nil {
			err = ErrClosed
		}
		if endsLeader(err) {
			l.c.cfg.Logger.Info("share-partition is loaded again", "group", l.key.Group, "topic", l.tp.Topic, "partition", l.tp.Partition, "err", err)
			answer(parked, err)
			l.end(err)
			continue
		}
		if pause == firstStorePause {
			l.c.cfg.Logger.Warn("state of a share-partition was not stored, trying again", "group", l.key.Group, "topic", l.tp.Topic, "partition", l.tp.Partition, "err", err)
		}
		l.notStored(d, parked, err)
		select {
		case <-time.After(pause):
		case <-l.c.ctx.Done():
		}
		pause = min(2*pause, longestStorePause)
	}
}

// endsLeader reports whether a change was rejected because this leader no longer decides about the
// share-partition.
func endsLeader(err error) bool {
	return slices.ContainsFunc([]error{ErrFencedLeaderEpoch, ErrFencedStateEpoch, ErrNotInitialized, ErrClosed}, func(e error) bool { return errors.Is(err, e) })
}

// notStored puts d back, so that the next write includes it, and fails the parked calls with err.
// Their callers may retry.
func (l *leader) notStored(d inflight.Delta, parked []parked, err error) {
	l.mu.Lock()
	l.p.NotStored(d)
	for _, p := range parked {
		p.doubted(time.Now())
	}
	l.mu.Unlock()
	answer(parked, err)
}

// A parked is a call that waits until its change is stored.
type parked struct {
	done    chan error          // of capacity 1
	doubted func(now time.Time) // under leader.mu, if the call fails
}

func answer(all []parked, err error) {
	for _, p := range all {
		p.done <- err
	}
}

// A changing is a change of a share-partition. Both functions are called under leader.mu.
type changing struct {
	do      func(now time.Time) error
	doubted func(now time.Time) // if the call fails; nil if there is nothing to do
}

// begin applies a change, or returns the error that rejects it. The returned function waits until
// the change is stored.
func (l *leader) begin(ch changing) (wait func(context.Context) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return nil, l.over
	}
	l.lookLocked()
	if err := ch.do(time.Now()); err != nil {
		return nil, err
	}
	if ch.doubted == nil {
		ch.doubted = func(time.Time) {}
	}
	done := make(chan error, 1)
	l.parked = append(l.parked, parked{done, ch.doubted})
	l.changedLocked()
	return func(ctx context.Context) error {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			ch.doubted(time.Now())
			return ctx.Err()
		case <-l.c.ctx.Done():
			return ErrClosed
		}
	}, nil
}
