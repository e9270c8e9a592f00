package group

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/internal/streaming"
	"github.com/stratalog/strata/internal/machine"
)

// StreamsHeartbeat processes the heartbeat of a member of a streams group (KIP-1071), its only
// request: see StreamsHeartbeatRequest. A member that joins creates the group if there is none, and
// converts a classic group without members; the group's offsets stay. It returns when the changes
// in its response are durable. It creates no topics: the response names the application's missing
// topics, and the group continues when they exist.
//
// Errors: ErrInvalidRequest, ErrInvalidTopology or ErrGroupMaxSize for a request that is invalid
// here; ErrUnknownMember or ErrFencedMemberEpoch if the member must abandon its tasks and join
// again; ErrGroupNotFound if the group does not exist or is of another kind; ErrTooLarge; or one to
// retry. Kafka: StreamsGroupHeartbeat.
func (c *Coordinator) StreamsHeartbeat(ctx context.Context, r StreamsHeartbeatRequest) (StreamsHeartbeatResponse, error) {
	if err := checkStreamsHeartbeat(&r); err != nil {
		return StreamsHeartbeatResponse{}, err
	}
	topics, err := c.snapshotFor(ctx, true)
	if err != nil {
		return StreamsHeartbeatResponse{}, err
	}
	ask := c.existing
	if r.MemberEpoch == 0 {
		ask = c.creating
	}
	v, err := ask(ctx, question{group: r.Group, absent: ErrGroupNotFound}, func(t machine.Ticket) kinds.Event {
		return streaming.EventHeartbeat{StreamsHeartbeatRequest: &r, Topics: topics, To: t}
	})
	resp, _ := v.(StreamsHeartbeatResponse)
	return resp, err
}

// checkStreamsHeartbeat makes the checks that need no group.
func checkStreamsHeartbeat(r *StreamsHeartbeatRequest) error {
	invalid := func(why string) error { return fmt.Errorf("%w: %s", ErrInvalidRequest, why) }
	joins := r.MemberEpoch == 0
	switch {
	case r.MemberID == "" || r.Group == "":
		return invalid("a member has an id, and so has its group")
	case r.MemberEpoch < -1:
		return invalid("there is no such member epoch")
	case joins != (r.Topology != nil):
		return invalid("a member that joins brings the topology, and no other does")
	case joins && r.RebalanceTimeout < 0:
		return invalid("a member that joins has a rebalance timeout")
	case joins && r.Owned != nil && len(r.Owned.Active)+len(r.Owned.Standby)+len(r.Owned.Warmup) > 0:
		return invalid("a member that joins has no tasks")
	}
	long := tooLong(r.Group) || tooLong(r.MemberID) || tooLong(r.RackID) || tooLong(r.ClientID) || tooLong(r.ClientHost) || r.ProcessID != nil && tooLong(*r.ProcessID)
	if long || r.Endpoint != nil && tooLong(r.Endpoint.Host) {
		return errFieldTooLong
	}
	r.RebalanceTimeout = min(r.RebalanceTimeout, maxRebalanceTimeout)
	return nil
}

// DescribeStreamsGroup describes a streams group. It returns ErrGroupNotFound if there is no such
// streams group. Kafka: StreamsGroupDescribe.
func (c *Coordinator) DescribeStreamsGroup(ctx context.Context, id string) (StreamsDescription, error) {
	v, err := c.read(ctx, id, func(g *kinds.Group) any {
		if k, ok := g.Kind().(*streaming.Group); ok {
			return k.Describe()
		}
		return nil
	})
	d, ok := v.(StreamsDescription)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	return d, err
}
