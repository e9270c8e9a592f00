package coordinator

import (
	"fmt"

	"github.com/stratalog/strata/internal/machine"
)

// What ends a Shard, or takes its place, when its leadership is over.
var (
	errOver       = fmt.Errorf("%w: %w", machine.ErrNotLeader, machine.ErrMoving)
	errLeaderless = fmt.Errorf("%w: %w: the partition has no leader", machine.ErrNotAvailable, machine.ErrMoving)
)

// Shard returns the Shard of a partition, one of Partitions, in the epoch in which it is led now.
// That of an earlier epoch has ended when Shard returns: what it does not know cannot be asked of
// it any more. Without a leader there is none: ErrNotAvailable with ErrMoving. It does not block.
func (r *Runtime[M, E, R]) Shard(partition int32) (*Shard[M, E, R], error) {
	led, err := r.store.Leader(partition)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrNotAvailable, err)
	}
	if s := (*r.shards.Load())[partition].Load(); s != nil && s.led == led {
		return s, nil
	}
	return r.replace(partition)
}

// replace ends the Shard of an earlier epoch and makes that of the present one. The leader is
// looked up again, since only under mu what is older than what it was before.
func (r *Runtime[M, E, R]) replace(partition int32) (*Shard[M, E, R], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, machine.ErrClosed
	}
	led, err := r.store.Leader(partition)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrNotAvailable, err)
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

// Follow brings the Shards in line with who leads the partitions now, and begins to load those that
// are new. It does not wait for them.
func (r *Runtime[M, E, R]) Follow() {
	for p := range r.partitions() {
		if s, err := r.Shard(p); err == nil {
			s.preload()
		}
	}
}
