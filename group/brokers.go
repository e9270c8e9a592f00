package group

import (
	"context"
	"fmt"
)

// On returns the coordinator of one broker, as clients use it at that broker's address. It rejects
// a request for a group with another coordinator, or none, with ErrNotCoordinator, while c forwards
// the request. Its Groups and Lags return only the groups that this broker coordinates. It never
// creates the offsets topic: before FindCoordinator has created it, every request is rejected.
//
// The result is a view of c and costs nothing: it is valid as long as c, and need not be closed.
func (c *Coordinator) On(broker int32) *Coordinator { return &Coordinator{c.groups, broker} }

// FindCoordinator returns the broker that coordinates a group, whether or not the group exists. It
// creates the offsets topic if there is none. It returns ErrCoordinatorNotAvailable while the
// partition with the group's state has no leader. Kafka: FindCoordinator.
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
