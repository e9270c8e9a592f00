package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
)

// A returning static member is accepted without a rebalance: its group continues with its present
// assignment. That was made for the topics, and for the subscription of this member, at an earlier
// time. Kafka's client does not notice changes in between; this one does, whether or not it is the
// group's leader. Otherwise an unassigned partition would stay unread until a member requests a
// rebalance.

// noteReturn records whether the group accepted a static member again in its present generation. A
// member without a generation may also have joined a rebalance; inspect is harmless then.
func (m *classicMember) noteReturn(before memberState, join group.JoinResponse) {
	switch {
	case join.SkipAssignment, m.c.cfg.InstanceID != "" && before.generation < 0:
		m.unsure = true
	case before.generation >= 0 && join.Generation > before.generation:
		m.unsure = false // this generation's leader has this member's subscription
	}
}

// reviewReturn requests another inspection of the assignment if the topics have changed since it
// was found to fit: the group's leader may not watch the topics that this member subscribes to
// since its return.
func (m *classicMember) reviewReturn(ctx context.Context) error {
	if m.reviewed == nil || m.unsure {
		return nil
	}
	counts, err := m.c.partitionCounts(ctx, slices.Collect(maps.Keys(m.reviewed)))
	if err != nil {
		return fmt.Errorf("partitions: %w", err)
	}
	m.unsure = !maps.Equal(counts, m.reviewed)
	return nil
}

// inspect requests a rebalance if the group's assignment is in doubt and does not fit. It is called
// after a heartbeat, which returns an error if a rebalance is already in progress.
func (m *classicMember) inspect(ctx context.Context) error {
	if !m.unsure {
		return nil
	}
	c := m.c
	call, cancel := context.WithTimeout(ctx, c.cfg.HeartbeatInterval)
	defer cancel()
	info, err := c.groups.Group(call, c.cfg.Group)
	if retriable.Final(err) {
		return fmt.Errorf("assignment of the group: %w", err)
	}
	if err != nil {
		c.cfg.Logger.Debug("looking at the group's assignment failed, trying again", "group", c.cfg.Group, "err", err)
		return nil
	}
	if info.State != group.Stable || info.Generation >= 0 && info.Generation != c.state().generation {
		return nil // the next heartbeat returns the change; Kafka does not return the generation
	}
	topics := map[string]bool{}
	for _, member := range info.Members {
		for _, t := range member.Topics {
			topics[t] = true
		}
	}
	counts, err := c.partitionCounts(call, slices.Collect(maps.Keys(topics)))
	if retriable.Final(err) {
		return fmt.Errorf("partitions: %w", err)
	}
	if err != nil {
		c.cfg.Logger.Debug("looking at the group's topics failed, trying again", "group", c.cfg.Group, "err", err)
		return nil
	}
	if why := misfit(info.Members, counts); why != "" {
		c.cfg.Logger.Info("static member came back to an assignment that does not fit, asking for a rebalance", "group", c.cfg.Group, "why", why)
		m.reason = why
		return errRejoin
	}
	m.unsure, m.reviewed = false, counts
	return nil
}

// misfit returns the reason why an assignment does not fit topics with these partition counts, ""
// if it fits. It fits if each partition has an owner that subscribes to it, and only existing
// partitions are assigned.
func misfit(members []group.MemberInfo, counts map[string]int32) string {
	owned := map[record.TopicPartition]bool{}
	for _, member := range members {
		for _, tp := range member.Assignment {
			switch {
			case !slices.Contains(member.Topics, tp.Topic):
				return fmt.Sprintf("%s-%d is assigned to a member that does not subscribe to it", tp.Topic, tp.Partition)
			case tp.Partition >= counts[tp.Topic]:
				return fmt.Sprintf("%s-%d is assigned and does not exist", tp.Topic, tp.Partition)
			}
			owned[tp] = true
		}
	}
	for name, n := range counts {
		for p := range n {
			if !owned[record.TopicPartition{Topic: name, Partition: p}] {
				return fmt.Sprintf("%s-%d is assigned to nobody", name, p)
			}
		}
	}
	return ""
}
