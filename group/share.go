package group

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/sharing"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// ShareStates stores the states of share-partitions, which record the acknowledged records of a
// partition. In a strata.Cluster it is the cluster's share.Coordinator. Its methods are called
// concurrently.
type ShareStates interface {
	// Begin creates the states of partitions that have none for the group; existing ones are not
	// changed. ErrGroupMaxSize if there is no memory for them.
	Begin(ctx context.Context, group string, topics []offsets.ShareStatesTopic) error

	// Reset replaces the group's state of a partition by a new one that starts at the given offset.
	Reset(ctx context.Context, group string, p SharePartition, start int64) error

	// Delete deletes the states of partitions for the group.
	Delete(ctx context.Context, group string, topics []offsets.ShareStatesTopic) error
}

// A SharePartition is a partition of one incarnation of a topic, which may be deleted and created
// again.
type SharePartition struct {
	TopicID   [16]byte
	Topic     string
	Partition int32
}

// noShareStates is the ShareStates of coordinators without share groups: it stores nothing.
type noShareStates struct{}

func (noShareStates) Begin(context.Context, string, []offsets.ShareStatesTopic) error  { return nil }
func (noShareStates) Reset(context.Context, string, SharePartition, int64) error       { return nil }
func (noShareStates) Delete(context.Context, string, []offsets.ShareStatesTopic) error { return nil }

// ShareHeartbeat processes the heartbeat of a member of a share group (KIP-932), its only request
// to the group's coordinator: see ShareHeartbeatRequest. A member that joins creates the group if
// there is none. It returns when the changes in its response are durable. Partitions that are new
// to the group first get their states in Config.ShareStates, within one heartbeat interval; if that
// fails they are assigned later.
//
// Errors: ErrInvalidRequest or ErrGroupMaxSize for a request that is invalid here; ErrUnknownMember
// or ErrFencedMemberEpoch if the member must abandon its partitions and join again;
// ErrGroupNotFound if the group does not exist or is of another kind; ErrTooLarge; or one to retry.
// Kafka: ShareGroupHeartbeat.
func (c *Coordinator) ShareHeartbeat(ctx context.Context, r ShareHeartbeatRequest) (ShareHeartbeatResponse, error) {
	if err := c.checkShareHeartbeat(&r); err != nil {
		return ShareHeartbeatResponse{}, err
	}
	topics, err := c.snapshotFor(ctx, r.SubscribedTopics != nil)
	if err != nil {
		return ShareHeartbeatResponse{}, err
	}
	ready, err := c.beginSubscribed(ctx, &r, topics)
	if err != nil {
		return ShareHeartbeatResponse{}, err
	}
	q := question{group: r.Group, absent: ErrGroupNotFound}
	repeated := false // set for a repetition after a move of the coordinator
	event := func(t machine.Ticket) kinds.Event {
		ev := sharing.EventHeartbeat{ShareHeartbeatRequest: &r, Topics: topics, Initialized: ready, Repeated: repeated, To: t}
		repeated = true
		return ev
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

// beginSubscribed creates the states of partitions that are new to the group of a heartbeat with
// topics, unless the group would reject the heartbeat. It returns the partitions with a state.
func (c *Coordinator) beginSubscribed(ctx context.Context, r *ShareHeartbeatRequest, topics *modern.Topics) ([]offsets.ShareStatesTopic, error) {
	if r.SubscribedTopics == nil || r.MemberEpoch < 0 {
		return nil, nil
	}
	v, err := c.read(ctx, r.Group, func(g *kinds.Group) any {
		if s := shareGroup(g); s != nil || g.Forgotten() {
			return sharing.Missing(s, topics, r)
		}
		return []offsets.ShareStatesTopic(nil) // of another kind
	})
	if err != nil {
		return nil, err
	}
	missing, exists := v.([]offsets.ShareStatesTopic)
	if !exists {
		missing = sharing.Missing(nil, topics, r)
	}
	return c.beginStates(ctx, r.Group, missing)
}

// shareGroup returns g as a share group; nil: it is of another kind.
func shareGroup(g *kinds.Group) *sharing.Group {
	s, _ := g.Kind().(*sharing.Group)
	return s
}

// checkShareHeartbeat makes the checks that need no group. Kafka:
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

// beginStates creates states of partitions, and returns the partitions with a state: all or none.
// The only error is ErrGroupMaxSize.
func (c *Coordinator) beginStates(ctx context.Context, group string, missing []offsets.ShareStatesTopic) ([]offsets.ShareStatesTopic, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ShareHeartbeatInterval)
	defer cancel()
	if err := c.cfg.ShareStates.Begin(ctx, group, missing); err != nil {
		c.cfg.Logger.Warn("partitions are not assigned yet: they have no state", "group", group, "err", err)
		if !errors.Is(err, ErrGroupMaxSize) {
			err = nil
		}
		return nil, err
	}
	return missing, nil
}

// initialize creates states of partitions, and reports them to the group.
func (c *Coordinator) initialize(ctx context.Context, group string, missing []offsets.ShareStatesTopic) {
	if ready, _ := c.beginStates(ctx, group, missing); ready != nil {
		_, err := c.existing(ctx, question{group: group, absent: ErrGroupNotFound}, func(t machine.Ticket) kinds.Event {
			return sharing.EventInitialized{States: ready, To: t}
		})
		if err != nil {
			c.cfg.Logger.Debug("states of partitions were not noted", "group", group, "err", err) // they are tried again
		}
	}
}

// DescribeShareGroup describes a share group. It returns ErrGroupNotFound if there is no such share
// group. Kafka: ShareGroupDescribe.
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

// ShareStatesOf returns the partitions for which a share group has states, sorted by topic name. It
// returns ErrGroupNotFound if there is no such share group.
func (c *Coordinator) ShareStatesOf(ctx context.Context, id string) ([]offsets.ShareStatesTopic, error) {
	v, err := c.shareView(ctx, id)
	return v.states, err
}

// A shareView is the part of a share group that changes of its states depend on.
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

// emptyShareGroup returns shareView's result, and ErrNonEmptyGroup if the group has members.
func (c *Coordinator) emptyShareGroup(ctx context.Context, id string) (shareView, error) {
	v, err := c.shareView(ctx, id)
	if err == nil && v.state == Stable {
		err = fmt.Errorf("%w: %s", ErrNonEmptyGroup, id)
	}
	return v, err
}

// ResetShareOffsets resets a share group without members in partitions, each to an offset. It
// creates a group that does not exist. The map has an error or nil for each partition. It returns
// ErrNonEmptyGroup if the group has members, and ErrGroupNotFound for a group of another kind, with
// nothing changed. Kafka: AlterShareGroupOffsets.
func (c *Coordinator) ResetShareOffsets(ctx context.Context, id string, to map[SharePartition]int64) (map[SharePartition]error, error) {
	if err := checkID(id, true); err != nil {
		return nil, err
	}
	// The group is created before its states, since they are deleted with it.
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

// DeleteShareOffsets removes the states of a topic from a share group without members: the topic is
// then new to the group. It returns ErrNonEmptyGroup if the group has members, ErrGroupNotFound if
// there is no such share group, and ErrUnknownTopicOrPartition if the group has no state of the
// topic. Kafka: DeleteShareGroupOffsets.
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

// deleteStates deletes the states of a group in __share_group_state, before the group is deleted.
// It does nothing unless the group is a share group without members.
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
