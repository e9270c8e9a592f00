package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// A groupSeen is a group that commits offsets, of any protocol, as its coordinator and the leaders
// of its partitions tell it.
type groupSeen struct {
	groupLine // its Lag is of the partitions whose lag is known
	members   []memberLine
	parts     []partitionSeen // in order
	err       error           // the coordinator does not tell
}

type partitionSeen struct {
	lagLine
	err error // the lag is not known
}

// errNoGroup says that there is no such group of consumers.
var errNoGroup = errors.New("no such group of consumers")

// lookAtGroups returns the groups of those names, all that commit offsets without any, in order.
// There are three protocols, and a broker describes a group only to who asks for the one that it
// has: the classic one is asked for first, then KIP-848's and that of streams for what is left.
func lookAtGroups(ctx context.Context, ask asker, names ...string) ([]groupSeen, error) {
	lags, err := ask.admin.Lag(ctx, slices.Clone(names)...)
	if err != nil {
		return nil, err
	}
	var out []groupSeen
	var left []string // of names
	for _, l := range lags.Sorted() {
		switch {
		case l.State == "Dead" && len(names) == 0: // it went after it was listed
		case l.State == "Dead": // there is none, or one of another protocol
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
	for _, p := range l.Lag.Sorted() {
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

// lagOf is how far a partition's committed offset is behind its end: all that it has if nothing is
// committed.
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
	l.End, l.Lag = end.Offset, max(0, end.Offset-start.Offset)
	if l.Committed >= 0 {
		l.Lag = max(0, end.Offset-l.Committed)
	} else if start.Err != nil {
		return l, start.Err
	}
	return l, nil
}

// lagError is why the lag of a group cannot be told: topics that are gone have none.
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
