package strata

import (
	"context"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// Groups describes all groups, sorted by id, without offsets.
func (c *Cluster) Groups(ctx context.Context) ([]group.Info, error) { return c.coordinator.Groups(ctx) }

// Group describes a group with its members, offsets and lag. It returns group.ErrGroupNotFound if
// there is none of that id.
func (c *Cluster) Group(ctx context.Context, id string) (group.Info, error) {
	return c.coordinator.Group(ctx, id)
}

// WaitGroup returns as soon as pred holds for the group; it looks again whenever the group changes,
// without polling. A group that does not exist is shown to pred as Dead. pred runs on the caller's
// goroutine.
func (c *Cluster) WaitGroup(ctx context.Context, id string, pred func(group.Info) bool) (group.Info, error) {
	return c.coordinator.WaitGroup(ctx, id, pred)
}

// ResetOffsets stores offsets for a group that has no members, which it creates if there is none;
// it returns when they are durable. It returns group.ErrNonEmptyGroup if it has members, and, with
// nothing stored, group.ErrUnknownTopicOrPartition if one of the partitions does not exist and
// replication.ErrNotLeader if nobody leads one of them.
func (c *Cluster) ResetOffsets(ctx context.Context, id string, to record.Offsets) error {
	return c.coordinator.ResetOffsets(ctx, id, to)
}

// DeleteGroup removes a group and its offsets, durably. It returns group.ErrNonEmptyGroup if it has
// members, group.ErrGroupNotFound if there is none.
func (c *Cluster) DeleteGroup(ctx context.Context, id string) error {
	return c.coordinator.DeleteGroup(ctx, id)
}

// DeleteOffsets removes offsets of a group, durably. The map says group.ErrGroupSubscribedToTopic,
// group.ErrUnknownTopicOrPartition or nil for each partition. It returns group.ErrGroupNotFound, or
// group.ErrNonEmptyGroup if the group has members that are no consumers.
func (c *Cluster) DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (map[record.TopicPartition]error, error) {
	return c.coordinator.DeleteOffsets(ctx, id, tps...)
}

// Lags returns the lag of every group, sorted by id, and how long each takes to catch up. Whoever
// calls it every few seconds sees whether a group needs more members: group.LagLimit.Check says
// that it is beyond what its application tolerates.
func (c *Cluster) Lags(ctx context.Context) ([]group.GroupLag, error) { return c.coordinator.Lags(ctx) }

// RewindGroup moves a group, with or without members, to a time, by a shift or to given offsets,
// and returns where each partition went once that is durable; offsets beyond either end of a log
// become that end. tps are the partitions to move, none: all that the group reads. Members follow:
// they give up their partitions, join again and read on from there; what they commit until then is
// refused with group.ErrUnknownMember.
//
// It returns group.ErrGroupNotFound if there is no such group and none of the partitions is named,
// group.ErrUnknownTopicOrPartition for one that does not exist, replication.ErrNotLeader for one
// that nobody leads, group.ErrInvalidOffset for a negative offset or the zero ResetTarget, always
// with nothing moved.
func (c *Cluster) RewindGroup(ctx context.Context, id string, to group.ResetTarget, tps ...record.TopicPartition) (record.Offsets, error) {
	return c.coordinator.RewindGroup(ctx, id, to, tps...)
}
