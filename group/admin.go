package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// Admin is the administration of groups, for tools and tests.
type Admin interface {
	Groups(ctx context.Context) ([]Info, error)         // all groups, sorted by id, without offsets
	Group(ctx context.Context, id string) (Info, error) // one group with members, offsets and lag
	Lags(ctx context.Context) ([]GroupLag, error)       // of all groups, with drain times

	// WaitGroup waits until pred returns true for the group.
	WaitGroup(ctx context.Context, id string, pred func(Info) bool) (Info, error)

	// ResetOffsets and DeleteGroup are for groups without members. RewindGroup also moves groups
	// with members. DeleteOffsets deletes offsets of topics that the group does not read.
	ResetOffsets(ctx context.Context, id string, to record.Offsets) error
	RewindGroup(ctx context.Context, id string, to ResetTarget, tps ...record.TopicPartition) (record.Offsets, error)
	DeleteGroup(ctx context.Context, id string) error
	DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (map[record.TopicPartition]error, error)
}

var _ Admin = (*Coordinator)(nil)

// Info describes a group.
type Info struct {
	ID           string
	Type         Type
	State        State
	ProtocolType string                               // "": a group with offsets only
	Protocol     string                               // name of the chosen assignor; "": none
	Generation   int32                                // -1: not known, as Kafka does not return it for classic groups
	Leader       string                               // member id of the group leader; "": none
	Members      []MemberInfo                         // in the order in which they joined
	Offsets      map[record.TopicPartition]OffsetInfo // nil in Groups
}

// StableWith returns a predicate for WaitGroup: the group is Stable and has n members.
func StableWith(n int) func(Info) bool {
	return func(i Info) bool { return i.State == Stable && len(i.Members) == n }
}

// Groups describes all groups, sorted by id, without offsets. If a partition of the offsets topic
// has no leader or cannot be loaded, its groups are missing, and the error matches
// ErrCoordinatorNotAvailable.
func (c *Coordinator) Groups(ctx context.Context) ([]Info, error) {
	var out []Info
	err := c.each(ctx, func(_ string, g *kinds.Group) { out = append(out, c.newInfo(g.View())) })
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return out, err
}

// each calls f, which must only read, with every group that is reachable.
func (c *Coordinator) each(ctx context.Context, f func(id string, g *kinds.Group)) error {
	return c.eachShard(ctx, func(s *shard) error { return s.Each(ctx, f) })
}

// Describe describes a group as Group does, but without its offsets. It returns ErrGroupNotFound if
// there is no such group.
func (c *Coordinator) Describe(ctx context.Context, id string) (Info, error) {
	v, err := c.read(ctx, id, func(g *kinds.Group) any { return c.newInfo(g.View()) })
	if err != nil {
		return Info{}, err
	}
	info, ok := v.(Info)
	if !ok {
		return Info{}, fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	return info, nil
}

// OffsetsPartition returns the partition of the offsets topic that stores the group's state. Its
// leader is the group's coordinator. If the offsets topic does not exist, it is created if create
// is true; otherwise the error is ErrNotCoordinator, since no group has a coordinator yet.
func (c *Coordinator) OffsetsPartition(ctx context.Context, group string, create bool) (int32, error) {
	p, err := c.partition(ctx, group, create)
	if err == nil && p < 0 {
		err = ErrNotCoordinator
	}
	return p, err
}

func (c *Coordinator) newInfo(v classic.View) Info {
	i := Info{ID: v.ID, Type: v.Type, State: v.State, ProtocolType: v.ProtocolType, Protocol: v.Protocol, Generation: v.Generation, Leader: v.Leader}
	for _, m := range v.Members {
		mi := MemberInfo{ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost, Topics: m.Topics, Assignment: m.Assignment,
			SubscriptionData: m.SubscriptionData, AssignmentData: m.AssignmentData}
		for _, t := range m.Assigned {
			name, ok := c.snapshot.Load().Name(t.TopicID)
			for _, p := range t.Partitions {
				if ok {
					mi.Assignment = append(mi.Assignment, record.TopicPartition{Topic: name, Partition: p})
				}
			}
		}
		i.Members = append(i.Members, mi)
	}
	return i
}

// WaitGroup waits until pred returns true for the group. It calls pred on the caller's goroutine,
// at first and whenever the group changes, without polling. For a group that does not exist, pred
// gets an Info with state Dead.
func (c *Coordinator) WaitGroup(ctx context.Context, id string, pred func(Info) bool) (Info, error) {
	for {
		if info, err := c.awaitGroup(ctx, id, pred); !errors.Is(err, errLookAgain) {
			return info, err
		}
	}
}

var errLookAgain = errors.New("group: it may have changed")

// awaitGroup returns the group if pred holds, and errLookAgain as soon as it may have changed.
func (c *Coordinator) awaitGroup(ctx context.Context, id string, pred func(Info) bool) (info Info, err error) {
	changed := make(chan struct{}, 1)
	s, err := c.shard(ctx, id, true) // creates the offsets topic: the wait needs a shard
	if err == nil {
		defer s.Watch(id, changed)()
		info, err = c.Group(ctx, id)
	}
	var retry <-chan time.Time
	switch {
	case errors.Is(err, ErrNotCoordinator) && c.broker == anyBroker, errors.Is(err, ErrCoordinatorNotAvailable):
		retry = time.After(coordinator.RetryLoadAfter) // it is being loaded again, or moves
	case errors.Is(err, ErrGroupNotFound):
		info = Info{ID: id, State: Dead}
	case err != nil:
		return Info{}, err
	}
	if retry == nil && pred(info) {
		return info, nil
	}
	select {
	case <-changed:
		return info, errLookAgain
	case <-retry:
		return info, errLookAgain
	case <-ctx.Done():
		return info, ctx.Err()
	case <-c.ctx.Done():
		return info, ErrClosed
	}
}

// DeleteGroup removes a group and its offsets, durably. For a share group it also removes the
// states of its records. It returns ErrNonEmptyGroup if the group has members, ErrGroupNotFound if
// it does not exist.
func (c *Coordinator) DeleteGroup(ctx context.Context, id string) error {
	if err := c.deleteStates(ctx, id); err != nil {
		return err
	}
	_, err := c.existing(ctx, question{group: id, absent: ErrGroupNotFound, once: true}, func(t machine.Ticket) kinds.Event { return classic.EventDelete{To: t} })
	return err
}

// DeleteOffsets removes offsets of a group, durably. The map has an entry for each partition:
// ErrGroupSubscribedToTopic, ErrUnknownTopicOrPartition, or nil, also for a partition without an
// offset. The error is ErrGroupNotFound, or ErrNonEmptyGroup if the group has members that are not
// consumers.
func (c *Coordinator) DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (map[record.TopicPartition]error, error) {
	topics, err := c.lookup(ctx, slices.Values(tps))
	if err != nil {
		return nil, err
	}
	errs := make(map[record.TopicPartition]error, len(tps))
	var exist []record.TopicPartition
	for _, tp := range tps {
		if known(topics, tp) {
			exist = append(exist, tp)
		} else {
			errs[tp] = ErrUnknownTopicOrPartition
		}
	}
	v, err := c.existing(ctx, question{group: id, absent: ErrGroupNotFound, once: true}, func(t machine.Ticket) kinds.Event { return classic.EventDeleteOffsets{Partitions: exist, To: t} })
	if err != nil {
		return nil, err
	}
	maps.Copy(errs, v.(map[record.TopicPartition]error))
	return errs, nil
}

// GroupConfig returns the coordinator's configuration with defaults filled in.
func (c *Coordinator) GroupConfig() Config { return c.cfg }
