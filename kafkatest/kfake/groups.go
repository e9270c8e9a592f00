package kfake

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/replication"
)

// GroupInfo is a snapshot of a group of any kind. The caller owns it.
type GroupInfo struct {
	Group   string
	State   string        // Empty, PreparingRebalance, Stable, ...
	Epoch   int32         // generation of a classic group, epoch of other groups
	Members []GroupMember // sorted by member id

	Commits map[string]map[int32]GroupCommit // by topic and partition; none for share groups
}

// GroupCommit is one committed offset.
type GroupCommit struct {
	Offset      int64 // next offset to read
	LeaderEpoch int32 // -1: the commit had none
	Metadata    string
	At          time.Time // time of the commit
}

// GroupMember is one member of a group.
type GroupMember struct {
	MemberID         string
	InstanceID       *string // nil: not a static member
	ClientID         string
	ClientHost       string
	SubscribedTopics []string
	Assignment       map[string][]int32 // partitions by topic
}

// NumAssigned returns the number of partitions assigned to the member.
func (m *GroupMember) NumAssigned() (n int) {
	for _, ps := range m.Assignment {
		n += len(ps)
	}
	return n
}

// NumAssigned returns the number of partitions assigned to all members together.
func (g *GroupInfo) NumAssigned() (n int) {
	for i := range g.Members {
		n += g.Members[i].NumAssigned()
	}
	return n
}

// GroupInfo returns a snapshot of a group, nil if the group does not exist.
func (c *Cluster) GroupInfo(group string) *GroupInfo {
	ctx, cancel := c.context()
	defer cancel()
	info, err := c.inside().Coordinator.Group(ctx, group)
	if err != nil {
		return nil
	}
	return groupInfo(info)
}

// groupInfo translates a group. It returns nil for a group that does not exist.
func groupInfo(i group.Info) *GroupInfo {
	if i.State == group.Dead {
		return nil
	}
	g := &GroupInfo{Group: i.ID, State: i.State.String(), Epoch: i.Generation, Commits: map[string]map[int32]GroupCommit{}}
	for _, m := range i.Members {
		g.Members = append(g.Members, groupMember(m))
	}
	slices.SortFunc(g.Members, func(a, b GroupMember) int { return cmp.Compare(a.MemberID, b.MemberID) })
	for tp, o := range i.Offsets {
		if o.Offset < 0 {
			continue
		}
		if g.Commits[tp.Topic] == nil {
			g.Commits[tp.Topic] = map[int32]GroupCommit{}
		}
		g.Commits[tp.Topic][tp.Partition] = GroupCommit{Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata, At: o.CommittedAt}
	}
	return g
}

func groupMember(m group.MemberInfo) GroupMember {
	gm := GroupMember{MemberID: m.ID, ClientID: m.ClientID, ClientHost: m.ClientHost, SubscribedTopics: slices.Clone(m.Topics), Assignment: map[string][]int32{}}
	if m.InstanceID != "" {
		gm.InstanceID = &m.InstanceID
	}
	for _, tp := range m.Assignment {
		gm.Assignment[tp.Topic] = append(gm.Assignment[tp.Topic], tp.Partition)
	}
	for _, ps := range gm.Assignment {
		slices.Sort(ps)
	}
	return gm
}

// WaitGroupInfo waits until fn returns true for a group, and returns the group. fn is called on
// this goroutine at every change of the group, and with nil while the group does not exist. If ctx
// ends first, WaitGroupInfo returns ctx's error and the last argument of fn. It returns an error if
// fn is nil.
func (c *Cluster) WaitGroupInfo(ctx context.Context, groupName string, fn func(*GroupInfo) bool) (*GroupInfo, error) {
	if fn == nil {
		return nil, errors.New("kfake: WaitGroupInfo: fn is nil")
	}
	var last *GroupInfo
	_, err := c.inside().WaitGroup(ctx, groupName, func(i group.Info) bool {
		last = groupInfo(i)
		return fn(last)
	})
	return last, err
}

// WaitGroupStable is WaitGroupInfo for the state Stable and a number of members, -1 for any number.
func (c *Cluster) WaitGroupStable(ctx context.Context, groupName string, members int) (*GroupInfo, error) {
	return c.WaitGroupInfo(ctx, groupName, func(g *GroupInfo) bool {
		return g != nil && g.State == group.Stable.String() && (members < 0 || len(g.Members) == members)
	})
}

// SetGroupConfigs sets settings of a group by Kafka's names, as IncrementalAlterConfigs does. The
// group need not exist. If Kafka would reject one of them, that is logged and none is set.
func (c *Cluster) SetGroupConfigs(groupName string, configs map[string]string) {
	var changes []replication.ConfigChange
	for key, value := range configs {
		changes = append(changes, replication.ConfigChange{Key: key, Value: value, Op: replication.SetConfig})
	}
	ctx, cancel := c.context()
	defer cancel()
	if err := c.inside().AlterGroupConfig(ctx, group.ConfigAlteration{Group: groupName, Changes: changes}); err != nil {
		c.logf(LogLevelError, "configs of group %s: %v", groupName, err)
	}
}
