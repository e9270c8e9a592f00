package coordinator

import (
	"fmt"

	"github.com/stratalog/strata/internal/machine"
)

// Errors of a Shard whose leadership has ended, or of a partition without one.
var (
	errOver       = fmt.Errorf("%w: %w", machine.ErrNotLeader, machine.ErrMoving)
	errLeaderless = fmt.Errorf("%w: %w: the partition has no leader", machine.ErrNotAvailable, machine.ErrMoving)
)

// Shard returns the Shard of a partition, one of Partitions, in its present leader epoch. The Shard
// of an earlier epoch has ended when it returns. Without a leader the error is ErrNotAvailable with
// ErrMoving. It does not block.
func (r *Runtime[M, E, R]) Shard(partition int32) (*Shard[M, E, R], error) {
	led, err := r.store.Leader(partition)
	if err != nil {
		return nil, r.unavailable(err)
	}
	if s := (*r.shards.Load())[partition].Load(); s != nil && s.led == led {
		return s, nil
	}
	return r.replace(partition)
}

// unavailable returns the error of a failed lookup of a partition: ErrClosed if the Runtime is
// closed, since its store may be too, else an error to retry.
func (r *Runtime[M, E, R]) unavailable(err error) error {
	if r.ctx.Err() != nil {
		return machine.ErrClosed
	}
	return fmt.Errorf("%w: %w", machine.ErrNotAvailable, err)
}

// replace ends the Shard of an earlier epoch and makes one for the present. It looks the leader up
// again: only under mu is the result known to be newer than that Shard's.
func (r *Runtime[M, E, R]) replace(partition int32) (*Shard[M, E, R], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, machine.ErrClosed
	}
	led, err := r.store.Leader(partition)
	if err != nil {
		return nil, r.unavailable(err)
	}
	place := &(*r.shards.Load())[partition]
	s := place.Load()
	if s != nil && s.led == led {
		return s, nil
	}
	if s != nil {
		s.logger.Info("coordinator unloaded", "broker", s.led.Broker, "leader_epoch", s.led.Epoch)
		s.end(errOver)
		r.wg.Go(s.awaitAlarms)
	}
	if led.Broker < 0 {
		place.Store(nil)
		return nil, errLeaderless
	}
	s = newShard(r, partition, led)
	place.Store(s)
	return s, nil
}

// Follow makes the Shards match the present leaders, and starts to load new ones. It does not wait
// for them.
func (r *Runtime[M, E, R]) Follow() {
	for p := range r.partitions() {
		if s, err := r.Shard(p); err == nil {
			s.preload()
		}
	}
}
