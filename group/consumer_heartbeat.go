package group

import (
	"context"
	"fmt"
	"strings"

	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/internal/machine"
)

// ConsumerHeartbeat processes the heartbeat of a member of the newer protocol (KIP-848), its only
// request: see ConsumerHeartbeatRequest. A member that joins creates the group if there is none,
// and converts a group without members to its protocol; the group's offsets stay. It returns when
// the changes in its response are durable.
//
// Errors: ErrInvalidGroupID, ErrInvalidRequest, ErrUnsupportedAssignor, ErrInvalidRegularExpression
// or ErrGroupMaxSize for a request that is invalid here; ErrUnknownMember or ErrFencedMemberEpoch
// if the member must abandon its partitions and join again; ErrGroupNotFound if the group does not
// exist, or is of another kind and has members; ErrFencedInstance or ErrUnreleasedInstance if
// another member has the instance id; ErrTooLarge; or one to retry. Kafka: ConsumerGroupHeartbeat.
func (c *Coordinator) ConsumerHeartbeat(ctx context.Context, r ConsumerHeartbeatRequest) (ConsumerHeartbeatResponse, error) {
	if err := c.checkHeartbeat(&r); err != nil {
		return ConsumerHeartbeatResponse{}, err
	}
	topics, err := c.snapshotFor(ctx, r.SubscribedTopics != nil || r.SubscribedRegex != nil)
	if err != nil {
		return ConsumerHeartbeatResponse{}, err
	}
	q := question{group: r.Group, absent: ErrGroupNotFound}
	ask := c.existing
	if r.MemberEpoch == 0 {
		ask = c.creating
	}
	v, err := c.matching(ctx, r.Owner, r.Describes, func(m *modern.Matches) (any, error) {
		repeated := false // set for a repetition after a move of the coordinator
		return ask(ctx, q, func(t machine.Ticket) kinds.Event {
			ev := modern.EventHeartbeat{ConsumerHeartbeatRequest: &r, Topics: topics, Matches: m, Repeated: repeated, To: t}
			repeated = true
			return ev
		})
	})
	if err == nil && r.MemberEpoch < 0 {
		c.tellMembers(r.Group, 1)
	}
	resp, _ := v.(ConsumerHeartbeatResponse)
	return resp, err
}

// checkHeartbeat makes the checks that need no group. Kafka:
// GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
func (c *Coordinator) checkHeartbeat(r *ConsumerHeartbeatRequest) error {
	if err := checkID(r.Group, true); err != nil {
		return err
	}
	invalid := func(why string) error { return fmt.Errorf("%w: %s", ErrInvalidRequest, why) }
	switch {
	case r.MemberID == "" && r.MemberEpoch != 0:
		return invalid("MemberId can't be empty.")
	case r.MemberEpoch < -2:
		return invalid("MemberEpoch is invalid.")
	case r.MemberEpoch == -2 && r.InstanceID == "":
		return invalid("InstanceId can't be null.")
	case r.MemberEpoch == 0 && r.RebalanceTimeout < 0:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case r.MemberEpoch == 0 && (r.Owned == nil || len(r.Owned) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case r.MemberEpoch == 0 && r.SubscribedTopics == nil && r.SubscribedRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	}
	long := tooLong(r.MemberID) || tooLong(r.InstanceID) || tooLong(r.RackID) || tooLong(r.ClientID) || tooLong(r.ClientHost)
	for _, t := range r.SubscribedTopics {
		long = long || tooLong(t)
	}
	if long {
		return errFieldTooLong
	}
	if err := c.checkAssignor(r.Assignor); err != nil {
		return err
	}
	if r.SubscribedRegex != nil && *r.SubscribedRegex != "" {
		if _, err := compilePattern(*r.SubscribedRegex); err != nil {
			return err
		}
	}
	if r.MemberID == "" {
		r.MemberID = newUUID()
	}
	if r.ClientHost == "" {
		r.ClientHost = c.core.Modern.Process
	}
	r.RebalanceTimeout = min(r.RebalanceTimeout, maxRebalanceTimeout)
	return nil
}

// checkAssignor refuses a name that no server-side assignor has.
func (c *Coordinator) checkAssignor(name string) error {
	if name == "" {
		return nil
	}
	var names []string
	for _, a := range c.cfg.ConsumerAssignors {
		if a.Name() == name {
			return nil
		}
		names = append(names, a.Name())
	}
	//lint:ignore ST1005 Kafka's words, which clients print
	return fmt.Errorf("%w: ServerAssignor %s is not supported. Supported assignors: %s.", ErrUnsupportedAssignor, name, strings.Join(names, ", "))
}

// snapshotFor returns the topics for a heartbeat: the watcher's, or newer ones if the
// request has a subscription, whose topics may be new.
func (c *Coordinator) snapshotFor(ctx context.Context, subscribes bool) (*modern.Topics, error) {
	now, seen := c.topics.Load(), c.snapshot.Load()
	switch {
	case seen != nil && c.current(seen.Version) && (now == nil || now.Version <= seen.Version):
		return seen, nil
	case now != nil && (!subscribes || c.current(now.Version)) && (seen == nil || seen.Version < now.Version):
		return c.keepSnapshot(*now), nil
	case seen != nil && !subscribes:
		return seen, nil
	}
	all, err := c.store.Topics(ctx)
	if err != nil {
		return nil, err
	}
	return c.keepSnapshot(all), nil
}

// keepSnapshot has groups see t from now on, unless they see newer topics already.
func (c *Coordinator) keepSnapshot(t Topics) *modern.Topics {
	topics := make(map[string]modern.Topic, len(t.Topics))
	for name, info := range t.Topics {
		topics[name] = modern.Topic(info)
	}
	next := modern.NewTopics(t.Version, topics)
	for {
		seen := c.snapshot.Load()
		if seen != nil && seen.Version > next.Version {
			return seen
		}
		if c.snapshot.CompareAndSwap(seen, next) {
			return next
		}
	}
}

// DescribeConsumerGroup describes a group of the newer protocol. It returns ErrGroupNotFound for
// any other. Kafka: ConsumerGroupDescribe.
func (c *Coordinator) DescribeConsumerGroup(ctx context.Context, id string) (ConsumerDescription, error) {
	v, err := c.read(ctx, id, func(g *kinds.Group) any {
		if k, ok := g.Kind().(*modern.Group); ok {
			return k.Describe()
		}
		return nil
	})
	d, ok := v.(ConsumerDescription)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	return d, err
}

// CheckConsumerMember returns nil if a group of the newer protocol has this member in this epoch,
// as OffsetFetch requires. Otherwise it returns ErrUnknownMember or ErrStaleMemberEpoch. For groups
// of other kinds, and groups that do not exist, it returns nil.
func (c *Coordinator) CheckConsumerMember(ctx context.Context, id, member string, epoch int32) error {
	_, err := c.existing(ctx, question{group: id}, func(t machine.Ticket) kinds.Event {
		return modern.EventCheckMember{MemberID: member, MemberEpoch: epoch, To: t}
	})
	return err
}
