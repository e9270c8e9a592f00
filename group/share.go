package group

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/internal/sharing"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/internal/machine"
)

// ShareStates keeps the states of share-partitions, which say what of a partition is done. That of
// a strata.Cluster is its share.Coordinator. Its methods are called concurrently.
type ShareStates interface {
	// Begin makes the states of partitions that have none for the group; the others stay as they
	// are.
	Begin(ctx context.Context, group string, topics []offsets.ShareStatesTopic) error

	// Reset begins a partition anew for the group, at an offset.
	Reset(ctx context.Context, group string, p SharePartition, start int64) error

	// Delete deletes the states of partitions for the group.
	Delete(ctx context.Context, group string, topics []offsets.ShareStatesTopic) error
}

// A SharePartition is a partition of a topic that may be deleted and created again.
type SharePartition struct {
	TopicID   [16]byte
	Topic     string
	Partition int32
}

// noShareStates is for coordinators that nobody takes records by.
type noShareStates struct{}

func (noShareStates) Begin(context.Context, string, []offsets.ShareStatesTopic) error  { return nil }
func (noShareStates) Reset(context.Context, string, SharePartition, int64) error       { return nil }
func (noShareStates) Delete(context.Context, string, []offsets.ShareStatesTopic) error { return nil }

// ShareHeartbeat is all that members of share groups (KIP-932) say to the coordinator of their
// group: see ShareHeartbeatRequest. A member that joins makes the group if there is none. It waits
// until what it answers is durable. Partitions that are new to the group get their states in
// Config.ShareStates first, for one heartbeat interval at most: where that fails they are assigned
// later.
//
// It returns ErrInvalidRequest or ErrGroupMaxSize for a request that makes no sense here;
// ErrUnknownMember or ErrFencedMemberEpoch: the member abandons all that it has and joins again;
// ErrGroupNotFound if there is no such group, or one of another kind; ErrTooLarge; or one to retry.
// Kafka: ShareGroupHeartbeat.
func (c *Coordinator) ShareHeartbeat(ctx context.Context, r ShareHeartbeatRequest) (ShareHeartbeatResponse, error) {
	if err := c.checkShareHeartbeat(&r); err != nil {
		return ShareHeartbeatResponse{}, err
	}
	topics, err := c.snapshotFor(ctx, r.SubscribedTopics != nil)
	if err != nil {
		return ShareHeartbeatResponse{}, err
	}
	var ready []offsets.ShareStatesTopic
	if r.SubscribedTopics != nil && r.MemberEpoch >= 0 {
		v, err := c.read(ctx, r.Group, func(g *kinds.Group) any { return sharing.Missing(shareGroup(g), topics, r.SubscribedTopics) })
		if err != nil {
			return ShareHeartbeatResponse{}, err
		}
		missing, exists := v.([]offsets.ShareStatesTopic)
		if !exists {
			missing = sharing.Missing(nil, topics, r.SubscribedTopics)
		}
		ready = c.beginStates(ctx, r.Group, missing)
	}
	q := question{group: r.Group, absent: ErrGroupNotFound}
	event := func(t machine.Ticket) kinds.Event {
		return sharing.EventHeartbeat{ShareHeartbeatRequest: &r, Topics: topics, Initialized: ready, To: t}
	}
	ask := c.existing
	if r.MemberEpoch == 0 {
		ask = c.creating
	}
	v, err := ask(ctx, q, event)
	ans, _ := v.(sharing.Answer)
	if err == nil && len(ans.Missing) > 0 && r.SubscribedTopics == nil { // otherwise they were tried
		c.initialize(ctx, r.Group, ans.Missing)
	}
	return ans.ShareHeartbeatResponse, err
}

// shareGroup returns g as a share group; nil: it is of another kind.
func shareGroup(g *kinds.Group) *sharing.Group {
	s, _ := g.Kind().(*sharing.Group)
	return s
}

// checkShareHeartbeat refuses what needs no group to be wrong. Kafka:
// GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid.
func (c *Coordinator) checkShareHeartbeat(r *ShareHeartbeatRequest) error {
	invalid := func(why string) error { return fmt.Errorf("%w: %s", ErrInvalidRequest, why) }
	switch {
	case r.Group == "":
		return invalid("GroupId can't be empty.")
	case r.MemberID == "":
		return invalid("MemberId can't be empty.")
	case r.MemberEpoch < -1:
		return invalid("MemberEpoch is invalid.")
	case r.MemberEpoch == 0 && len(r.SubscribedTopics) == 0:
		return invalid("SubscribedTopicNames must be set in first request.")
	}
	long := tooLong(r.Group) || tooLong(r.MemberID) || tooLong(r.RackID) || tooLong(r.ClientID) || tooLong(r.ClientHost)
	for _, t := range r.SubscribedTopics {
		long = long || tooLong(t)
	}
	if long {
		return errFieldTooLong
	}
	return nil
}

// beginStates makes states of partitions, and returns those that have one then: all or none.
func (c *Coordinator) beginStates(ctx context.Context, group string, missing []offsets.ShareStatesTopic) []offsets.ShareStatesTopic {
	if len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ShareHeartbeatInterval)
	defer cancel()
	if err := c.cfg.ShareStates.Begin(ctx, group, missing); err != nil {
		c.cfg.Logger.Warn("partitions are not assigned yet: they have no state", "group", group, "err", err)
		return nil
	}
	return missing
}

// initialize makes states of partitions, and has the group know of it.
func (c *Coordinator) initialize(ctx context.Context, group string, missing []offsets.ShareStatesTopic) {
	if ready := c.beginStates(ctx, group, missing); ready != nil {
		_, err := c.existing(ctx, question{group: group, absent: ErrGroupNotFound}, func(t machine.Ticket) kinds.Event {
			return sharing.EventInitialized{States: ready, To: t}
		})
		if err != nil {
			c.cfg.Logger.Debug("states of partitions were not noted", "group", group, "err", err) // they are tried again
		}
	}
}

// DescribeShareGroup describes a share group. It returns ErrGroupNotFound for any other. Kafka:
// ShareGroupDescribe.
func (c *Coordinator) DescribeShareGroup(ctx context.Context, id string) (ShareDescription, error) {
	v, err := c.read(ctx, id, func(g *kinds.Group) any {
		if s := shareGroup(g); s != nil {
			return s.Describe()
		}
		return nil
	})
	d, ok := v.(ShareDescription)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	return d, err
}

// ShareStatesOf returns the partitions that a share group has states of, by topic's name. It
// returns ErrGroupNotFound for a group of another kind, or none.
func (c *Coordinator) ShareStatesOf(ctx context.Context, id string) ([]offsets.ShareStatesTopic, error) {
	v, err := c.shareView(ctx, id)
	return v.states, err
}

// A shareView is what changes of a share group's states want to know of it.
type shareView struct {
	states []offsets.ShareStatesTopic
	state  State
}

func (c *Coordinator) shareView(ctx context.Context, id string) (shareView, error) {
	v, err := c.read(ctx, id, func(g *kinds.Group) any {
		if s := shareGroup(g); s != nil {
			return shareView{s.States(), s.State()}
		}
		return nil
	})
	view, ok := v.(shareView)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	return view, err
}

// emptyShareGroup is shareView of a group without members: ErrNonEmptyGroup if it has some.
func (c *Coordinator) emptyShareGroup(ctx context.Context, id string) (shareView, error) {
	v, err := c.shareView(ctx, id)
	if err == nil && v.state == Stable {
		err = fmt.Errorf("%w: %s", ErrNonEmptyGroup, id)
	}
	return v, err
}

// ResetShareOffsets has a share group without members begin anew in partitions, each at an offset;
// a group that does not exist is made. The map has an error or nil for each. It returns
// ErrNonEmptyGroup if it has members, ErrGroupNotFound for a group of another kind, with nothing
// changed. Kafka: AlterShareGroupOffsets.
func (c *Coordinator) ResetShareOffsets(ctx context.Context, id string, to map[SharePartition]int64) (map[SharePartition]error, error) {
	if err := checkID(id, true); err != nil {
		return nil, err
	}
	// The group is there before its states are: they go with it.
	initialized := func(states []offsets.ShareStatesTopic) error {
		_, err := c.creating(ctx, question{group: id}, func(t machine.Ticket) kinds.Event {
			return sharing.EventInitialized{States: states, Create: true, To: t}
		})
		return err
	}
	if err := initialized(nil); err != nil {
		return nil, err
	}
	if _, err := c.emptyShareGroup(ctx, id); err != nil {
		return nil, err
	}
	errs := make(map[SharePartition]error, len(to))
	var done []offsets.ShareStatesTopic
	for p, start := range to {
		errs[p] = c.cfg.ShareStates.Reset(ctx, id, p, start)
		if errs[p] == nil {
			done = append(done, offsets.ShareStatesTopic{TopicID: p.TopicID, Topic: p.Topic, Partitions: []int32{p.Partition}})
		}
	}
	return errs, initialized(done)
}

// DeleteShareOffsets has a share group without members forget a topic: it begins there as one that
// is new to it. It returns ErrNonEmptyGroup if it has members, ErrGroupNotFound for a group of
// another kind, or none; ErrUnknownTopicOrPartition if it has no state of the topic. Kafka:
// DeleteShareGroupOffsets.
func (c *Coordinator) DeleteShareOffsets(ctx context.Context, id string, topic [16]byte) error {
	if err := checkID(id, true); err != nil {
		return err
	}
	v, err := c.emptyShareGroup(ctx, id)
	if err != nil {
		return err
	}
	for _, t := range v.states {
		if t.TopicID != topic {
			continue
		}
		if err := c.cfg.ShareStates.Delete(ctx, id, []offsets.ShareStatesTopic{t}); err != nil {
			return err
		}
		_, err := c.existing(ctx, question{group: id, absent: ErrGroupNotFound}, func(t machine.Ticket) kinds.Event {
			return sharing.EventForget{TopicID: topic, To: t}
		})
		return err
	}
	return ErrUnknownTopicOrPartition
}

// deleteStates deletes what __share_group_state has of a group that is to be deleted, if it is a
// share group without members.
func (c *Coordinator) deleteStates(ctx context.Context, id string) error {
	v, err := c.read(ctx, id, func(g *kinds.Group) any {
		if s := shareGroup(g); s != nil && s.State() == Empty {
			return s.States()
		}
		return nil
	})
	if states, ok := v.([]offsets.ShareStatesTopic); ok && err == nil && len(states) > 0 {
		err = c.cfg.ShareStates.Delete(ctx, id, states)
	}
	return err
}
