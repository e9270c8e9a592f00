package strata

import (
	"context"
	"iter"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// Groups describes all groups, sorted by id, without offsets.
func (c *Cluster) Groups(ctx context.Context) ([]group.Info, error) { return c.coordinator.Groups(ctx) }

// Group describes a group with its members, offsets and lag. It returns group.ErrGroupNotFound if
// there is no such group.
func (c *Cluster) Group(ctx context.Context, id string) (group.Info, error) {
	return c.coordinator.Group(ctx, id)
}

// WaitGroup waits until pred returns true for the group. It calls pred on the caller's goroutine,
// at first and whenever the group changes, without polling. For a group that does not exist, pred
// gets an Info with state Dead.
func (c *Cluster) WaitGroup(ctx context.Context, id string, pred func(group.Info) bool) (group.Info, error) {
	return c.coordinator.WaitGroup(ctx, id, pred)
}

// GroupEvents returns the events of all groups from this call on: each rebalance with its causes,
// its duration, the members and their partitions, and rejected commits. The sequence waits for more
// events, and ends with ctx or the cluster. A slow reader does not delay the groups; it gets the
// number of events that it missed. See group.Coordinator.Events.
func (c *Cluster) GroupEvents(ctx context.Context) iter.Seq[group.Event] {
	return c.coordinator.Events(ctx)
}

// ResetOffsets stores offsets for a group without members, and creates the group if it does not
// exist. It returns when they are durable. It returns group.ErrNonEmptyGroup if the group has
// members. With nothing stored, it returns group.ErrUnknownTopicOrPartition if one of the
// partitions does not exist, and replication.ErrNotLeader if one has no leader.
func (c *Cluster) ResetOffsets(ctx context.Context, id string, to record.Offsets) error {
	return c.coordinator.ResetOffsets(ctx, id, to)
}

// DeleteGroup removes a group and its offsets, durably. It returns group.ErrNonEmptyGroup if the
// group has members, and group.ErrGroupNotFound if it does not exist.
func (c *Cluster) DeleteGroup(ctx context.Context, id string) error {
	return c.coordinator.DeleteGroup(ctx, id)
}

// DeleteOffsets removes offsets of a group, durably. The map has an entry for each partition:
// group.ErrGroupSubscribedToTopic, group.ErrUnknownTopicOrPartition or nil. The error is
// group.ErrGroupNotFound, or group.ErrNonEmptyGroup if the group has members that are not
// consumers.
func (c *Cluster) DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (map[record.TopicPartition]error, error) {
	return c.coordinator.DeleteOffsets(ctx, id, tps...)
}

// Lags returns the lag of every group, sorted by id, and the time that each needs to catch up. Call
// it every few seconds to find groups that need more members: group.LagLimit.Check compares a lag
// with the limit of an application.
func (c *Cluster) Lags(ctx context.Context) ([]group.GroupLag, error) { return c.coordinator.Lags(ctx) }

// TimeLags returns for every group, sorted by id, the age of the oldest record that it has not
// committed, exact to one batch, also by partition. A call reads at most 200 timestamps from logs:
// partitions beyond that are counted as unknown until a later call.
func (c *Cluster) TimeLags(ctx context.Context) ([]group.TimeLag, error) {
	return c.coordinator.TimeLags(ctx)
}

// RewindGroup moves the offsets of a group, with or without members, to a time, by a shift or to
// given offsets. It returns the new offset of each partition once these are durable; offsets beyond
// either end of a log become that end. tps are the partitions to move; without any, RewindGroup
// moves all partitions that the group reads. Members follow: they give up their partitions, join
// again and read from the new offsets. Their commits until then are rejected with
// group.ErrUnknownMember.
//
// On error nothing has moved. Errors: group.ErrGroupNotFound if the group does not exist and no
// partition is named, group.ErrUnknownTopicOrPartition if a partition does not exist,
// replication.ErrNotLeader if one has no leader, and group.ErrInvalidOffset for a negative offset
// or the zero ResetTarget.
func (c *Cluster) RewindGroup(ctx context.Context, id string, to group.ResetTarget, tps ...record.TopicPartition) (record.Offsets, error) {
	return c.coordinator.RewindGroup(ctx, id, to, tps...)
}
