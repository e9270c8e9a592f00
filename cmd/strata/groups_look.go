package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stratalog/strata/group"
)

// A groupSeen is a group that commits offsets, of any protocol. It combines answers of the group's
// coordinator and of the leaders of its partitions.
type groupSeen struct {
	groupLine // Lag is the sum over the partitions whose lag is known
	members   []memberLine
	parts     []partitionSeen // in order
	err       error           // the group could not be described
}

type partitionSeen struct {
	lagLine
	err error // set if the lag is unknown
}

// errNoGroup is returned for a name that no consumer group has.
var errNoGroup = errors.New("no such consumer group")

// lookAtGroups returns the groups named, or all groups that commit offsets if names is empty,
// sorted by name. There are three protocols, each with its own request, and a request describes
// only groups of its protocol. lookAtGroups tries the classic protocol first, then KIP-848 and
// streams for the remaining names.
func lookAtGroups(ctx context.Context, ask asker, names ...string) ([]groupSeen, error) {
	lags, err := ask.admin.Lag(ctx, slices.Clone(names)...)
	if err != nil {
		return nil, err
	}
	var out []groupSeen
	var left []string // of names
	for _, l := range lags.Sorted() {
		switch {
		case l.State == "Dead" && len(names) == 0: // deleted after it was listed
		case l.State == "Dead": // no such group, or of another protocol
			left = append(left, l.Group)
		default:
			out = append(out, classicSeen(l))
		}
	}
	if len(left) > 0 || len(names) == 0 {
		others, err := lookAtAssigned(ctx, ask, left)
		if err != nil {
			return nil, err
		}
		out = append(out, others...)
	}
	slices.SortFunc(out, func(a, b groupSeen) int { return cmp.Compare(a.Group, b.Group) })
	return out, nil
}

func classicSeen(l kadm.DescribedGroupLag) groupSeen {
	g := groupSeen{groupLine: groupLine{"described", l.Group, l.State, l.ProtocolType, l.Protocol, len(l.Members), l.Lag.Total()}, err: l.Error()}
	for _, m := range l.Members {
		out := memberLine{Type: "member", Group: l.Group, Member: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []string{}}
		if m.InstanceID != nil {
			out.Instance = *m.InstanceID
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				for _, p := range t.Partitions {
					out.Partitions = append(out.Partitions, partitionOf{t.Topic, p}.String())
				}
			}
			slices.Sort(out.Partitions)
		}
		g.members = append(g.members, out)
	}
	g.Lag = 0
	for _, p := range l.Lag.Sorted() {
		if p.Err == nil && p.Start.Err == nil {
			p.Lag = group.PartitionLag(p.Commit.At, p.Start.Offset, p.End.Offset)
		}
		g.Lag += max(p.Lag, 0)
		out := lagLine{Type: "partition", Group: l.Group, Topic: p.Topic, Partition: p.Partition, Committed: p.Commit.At, End: p.End.Offset, Lag: p.Lag, Metadata: p.Commit.Metadata}
		if p.Member != nil {
			out.Member = p.Member.MemberID
		}
		g.parts = append(g.parts, seen(out, p.Err))
	}
	return g
}

func seen(l lagLine, err error) partitionSeen {
	if err != nil {
		l.Error = err.Error()
	}
	return partitionSeen{l, err}
}

// lagOf returns the lag of a partition, as group.PartitionLag defines it.
func lagOf(at partitionOf, committed kadm.OffsetResponses, starts, ends kadm.ListedOffsets) (lagLine, error) {
	l := lagLine{Type: "partition", Topic: at.topic, Partition: at.partition, Committed: -1, End: -1, Lag: -1}
	o, told := committed.Lookup(at.topic, at.partition)
	if told && o.Err == nil {
		l.Committed, l.Metadata = o.At, o.Metadata
	}
	end, ok := ends.Lookup(at.topic, at.partition)
	start, started := starts.Lookup(at.topic, at.partition)
	switch {
	case o.Err != nil:
		return l, o.Err
	case !ok || !started:
		return l, kerr.UnknownTopicOrPartition
	case end.Err != nil:
		return l, end.Err
	}
	l.End = end.Offset
	switch {
	case start.Err == nil:
		l.Lag = group.PartitionLag(l.Committed, start.Offset, end.Offset)
	case l.Committed < 0:
		return l, start.Err
	default:
		l.Lag = group.PartitionLag(l.Committed, 0, end.Offset)
	}
	return l, nil
}

// lagError returns why the lag of a group is unknown. Deleted topics are left out.
func (g *groupSeen) lagError() error {
	if g.err != nil {
		return g.err
	}
	for _, p := range g.parts {
		if p.err != nil && !errors.Is(p.err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, p.err)
		}
	}
	return nil
}
