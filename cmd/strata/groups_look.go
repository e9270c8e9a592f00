package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A groupSeen is a group of consumers, of either protocol, as its coordinator and the leaders of
// its partitions tell it.
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

// lookAtGroups returns the groups of those names, all groups of consumers without any, in order.
// There are two protocols, and a broker describes a group only to who asks for the one that it has:
// the classic one is asked for first, KIP-848's for what is left.
func lookAtGroups(ctx context.Context, admin *kadm.Client, names ...string) ([]groupSeen, error) {
	lags, err := admin.Lag(ctx, slices.Clone(names)...)
	if err != nil {
		return nil, err
	}
	var out []groupSeen
	var left []string // of names
	for _, l := range lags.Sorted() {
		switch {
		case l.State == "Dead" && len(names) == 0: // it went after it was listed
		case l.State == "Dead": // there is none, or one of the other protocol
			left = append(left, l.Group)
		default:
			out = append(out, classicSeen(l))
		}
	}
	if len(left) > 0 || len(names) == 0 {
		modern, err := lookAtModern(ctx, admin, left)
		if err != nil {
			return nil, err
		}
		out = append(out, modern...)
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

// lookAtModern returns groups of KIP-848's protocol, all if none is named.
func lookAtModern(ctx context.Context, admin *kadm.Client, names []string) ([]groupSeen, error) {
	described := kadm.DescribedConsumerGroups{}
	known, err := describesModern(ctx, admin)
	if err == nil && known {
		described, err = admin.DescribeConsumerGroups(ctx, slices.Clone(names)...)
	}
	if err != nil {
		return nil, err
	}
	var out []groupSeen
	var found []string
	for _, name := range names {
		if g, ok := described[name]; !ok || errors.Is(g.Err, kerr.GroupIDNotFound) {
			out = append(out, groupSeen{groupLine: groupLine{Group: name}, err: errNoGroup})
		}
	}
	topics := kadm.TopicsSet{}
	for _, g := range described {
		if errors.Is(g.Err, kerr.GroupIDNotFound) {
			continue // named: told above; listed: it went since
		}
		found = append(found, g.Group)
		topics.Merge(g.AssignedPartitions())
		for _, t := range g.SubscribedTopics() {
			topics.Add(t)
		}
	}
	if len(found) == 0 {
		return out, nil
	}
	fetched := admin.FetchManyOffsets(ctx, slices.Clone(found)...)
	topics.Merge(fetched.CommittedPartitions())
	ends, starts := kadm.ListedOffsets{}, kadm.ListedOffsets{}
	if names := topics.Topics(); len(names) > 0 {
		if ends, err = admin.ListEndOffsets(ctx, names...); err == nil {
			starts, err = admin.ListStartOffsets(ctx, names...)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range found {
		out = append(out, modernSeen(described[name], fetched[name], starts, ends))
	}
	return out, nil
}

// describesModern tells whether the brokers know ConsumerGroupDescribe: Kafka does from 3.7 on.
func describesModern(ctx context.Context, admin *kadm.Client) (bool, error) {
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		return false, err
	}
	known := true
	for _, v := range versions {
		if v.Err != nil {
			return false, fmt.Errorf("broker %d: %w", v.NodeID, v.Err)
		}
		_, ok := v.KeyMaxVersion(kmsg.ConsumerGroupDescribe.Int16())
		known = known && ok
	}
	return known, nil
}

// modernSeen puts together what is known of a group. Its partitions are those that members have,
// those of topics that they want, and those that something was committed of.
func modernSeen(d kadm.DescribedConsumerGroup, fetched kadm.FetchOffsetsResponse, starts, ends kadm.ListedOffsets) groupSeen {
	g := groupSeen{groupLine: groupLine{"described", d.Group, d.State, "consumer", d.AssignorName, len(d.Members), 0}, err: errors.Join(d.Err, fetched.Err)}
	reads := map[partitionOf]string{}
	all := kadm.TopicsSet{}
	for _, m := range d.Members {
		out := memberLine{Type: "member", Group: d.Group, Member: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []string{}}
		if m.InstanceID != nil {
			out.Instance = *m.InstanceID
		}
		m.Assignment.Each(func(topic string, p int32) {
			all.Add(topic, p)
			reads[partitionOf{topic, p}] = m.MemberID
			out.Partitions = append(out.Partitions, partitionOf{topic, p}.String())
		})
		for _, t := range m.SubscribedTopics {
			for p := range ends[t] {
				all.Add(t, p)
			}
		}
		slices.Sort(out.Partitions)
		g.members = append(g.members, out)
	}
	fetched.Fetched.Each(func(o kadm.OffsetResponse) { all.Add(o.Topic, o.Partition) })
	for _, t := range all.Sorted() {
		for _, p := range t.Partitions {
			if p < 0 {
				continue // of a topic that is not there
			}
			l, err := lagOf(partitionOf{t.Topic, p}, fetched.Fetched, starts, ends)
			l.Group, l.Member = d.Group, reads[partitionOf{t.Topic, p}]
			if err == nil {
				g.Lag += l.Lag
			}
			g.parts = append(g.parts, seen(l, err))
		}
	}
	return g
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
