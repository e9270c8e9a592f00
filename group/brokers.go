package group

import (
	"context"
	"fmt"
)

// On returns the coordinator of one broker, as clients find it at that broker's address. A request
// for a group that another broker coordinates, or none, is refused with ErrNotCoordinator, where c
// hands it on; Groups and Lags tell of the groups that this broker coordinates. It never makes the
// offsets topic: before FindCoordinator has, all groups are coordinated elsewhere.
//
// It is a view of c, made at no cost: it lives as long as c does and need not be closed.
func (c *Coordinator) On(broker int32) *Coordinator { return &Coordinator{c.groups, broker} }

// FindCoordinator returns the broker that coordinates a group, whether or not there is such a
// group. The offsets topic is made if there is none. It returns ErrCoordinatorNotAvailable while
// the partition that the group's state is kept in has no leader. Kafka: FindCoordinator.
func (c *Coordinator) FindCoordinator(ctx context.Context, group string) (broker int32, err error) {
	all := &Coordinator{c.groups, anyBroker}
	p, err := all.partition(ctx, group, true)
	if err != nil {
		return -1, err
	}
	broker, _, err = c.store.OffsetsLeader(p)
	if err == nil && broker < 0 {
		err = fmt.Errorf("%w: no broker leads partition %d of the offsets topic", ErrCoordinatorNotAvailable, p)
	}
	return broker, err
}
