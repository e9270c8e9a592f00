package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An assigned is a group whose coordinator computes the assignment: of the consumer protocol
// (KIP-848) or of streams. Its contents are the coordinator's description.
type assigned struct {
	groupLine
	members []memberLine
	reads   map[partitionOf]string // the member that owns each partition
	topics  []string               // that members subscribe to
	err     error
}

// lookAtAssigned returns the groups named whose coordinators compute the assignment, all such
// groups if names is empty.
func lookAtAssigned(ctx context.Context, ask asker, names []string) ([]groupSeen, error) {
	groups, err := describeAssigned(ctx, ask, names)
	if err != nil {
		return nil, err
	}
	var out []groupSeen
	for _, name := range names {
		if _, ok := groups[name]; !ok {
			out = append(out, groupSeen{groupLine: groupLine{Group: name}, err: errNoGroup})
		}
	}
	if len(groups) == 0 {
		return out, nil
	}
	fetched := ask.admin.FetchManyOffsets(ctx, slices.Collect(maps.Keys(groups))...)
	topics := fetched.CommittedPartitions()
	for _, g := range groups {
		for p := range g.reads {
			topics.Add(p.topic)
		}
		for _, t := range g.topics {
			topics.Add(t)
		}
	}
	ends, starts := kadm.ListedOffsets{}, kadm.ListedOffsets{}
	if names := topics.Topics(); len(names) > 0 {
		if ends, err = ask.admin.ListEndOffsets(ctx, names...); err == nil {
			starts, err = ask.admin.ListStartOffsets(ctx, names...)
		}
		if err != nil {
			return nil, err
		}
	}
	for name, g := range groups {
		out = append(out, g.seen(fetched[name], starts, ends))
	}
	return out, nil
}

// describeAssigned describes the groups named, or all groups of both protocols that coordinators
// list. The result has no groups of other protocols. Brokers may lack the requests: Kafka has that
// of KIP-848 from 3.7 on, that for streams groups from 4.1.
func describeAssigned(ctx context.Context, ask asker, names []string) (map[string]assigned, error) {
	versions, err := ask.admin.ApiVersions(ctx)
	if err != nil {
		return nil, err
	}
	groups := map[string]assigned{}
	if known, err := describes(versions, kmsg.ConsumerGroupDescribe); err != nil {
		return nil, err
	} else if known {
		found, err := ask.admin.DescribeConsumerGroups(ctx, slices.Clone(names)...)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			if !errors.Is(d.Err, kerr.GroupIDNotFound) { // of another protocol, or deleted since
				groups[d.Group] = modernAssigned(d)
			}
		}
	}
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := groups[name]; return ok })
	known, err := describes(versions, kmsg.StreamsGroupDescribe)
	switch {
	case err != nil:
		return nil, err
	case !known || len(names) > 0 && len(left) == 0:
		return groups, nil
	case len(names) == 0:
		listed, err := ask.admin.ListGroupsByType(ctx, []string{"streams"})
		if err != nil {
			return nil, err
		}
		left = listed.Groups()
	}
	found, err := ask.describeStreams(ctx, left)
	if err != nil {
		return nil, err
	}
	for _, d := range found {
		if err := kerr.ErrorForCode(d.ErrorCode); !errors.Is(err, kerr.GroupIDNotFound) {
			groups[d.Group] = streamsAssigned(d, err)
		}
	}
	return groups, nil
}

// describes reports whether all brokers support a request.
func describes(versions kadm.BrokersApiVersions, key kmsg.Key) (bool, error) {
	known := true
	for _, v := range versions {
		if v.Err != nil {
			return false, fmt.Errorf("broker %d: %w", v.NodeID, v.Err)
		}
		_, ok := v.KeyMaxVersion(key.Int16())
		known = known && ok
	}
	return known, nil
}

func modernAssigned(d kadm.DescribedConsumerGroup) assigned {
	g := assigned{groupLine: groupLine{"described", d.Group, d.State, "consumer", d.AssignorName, len(d.Members), 0}, reads: map[partitionOf]string{}, err: d.Err}
	for _, m := range d.Members {
		out := memberLine{Type: "member", Group: d.Group, Member: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
		if m.InstanceID != nil {
			out.Instance = *m.InstanceID
		}
		m.Assignment.Each(func(topic string, p int32) { g.gives(&out, partitionOf{topic, p}) })
		g.topics = append(g.topics, m.SubscribedTopics...)
		g.add(out)
	}
	return g
}

// gives adds a partition to a member.
func (g *assigned) gives(m *memberLine, p partitionOf) {
	g.reads[p] = m.Member
	m.Partitions = append(m.Partitions, p.String())
}

// add adds a member whose partitions are complete.
func (g *assigned) add(m memberLine) {
	if m.Partitions == nil {
		m.Partitions = []string{}
	}
	slices.Sort(m.Partitions)
	g.members = append(g.members, m)
}

// describeStreams gets the descriptions of streams groups from their coordinators. kadm lacks the
// request, and the client cannot route it, so this looks up the coordinators.
func (ask asker) describeStreams(ctx context.Context, names []string) ([]kmsg.StreamsGroupDescribeResponseGroup, error) {
	if len(names) == 0 {
		return nil, nil
	}
	coordinated := map[int32][]string{}
	for _, r := range ask.admin.FindGroupCoordinators(ctx, names...) {
		if r.Err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, r.Err)
		}
		coordinated[r.NodeID] = append(coordinated[r.NodeID], r.Name)
	}
	var out []kmsg.StreamsGroupDescribeResponseGroup
	for id, names := range coordinated {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = names
		resp, err := ask.client.Broker(int(id)).RetriableRequest(ctx, req)
		if err != nil {
			return nil, err
		}
		out = append(out, resp.(*kmsg.StreamsGroupDescribeResponse).Groups...)
	}
	return out, nil
}

// streamsAssigned converts the description of a streams group. A member reads, for each active
// task, the task's partition of every source topic of the task's subtopology.
func streamsAssigned(d kmsg.StreamsGroupDescribeResponseGroup, err error) assigned {
	g := assigned{groupLine: groupLine{"described", d.Group, d.State, "streams", "", len(d.Members), 0}, reads: map[partitionOf]string{}, err: err}
	sources := map[string][]string{} // of subtopologies
	if d.Topology != nil {
		for _, s := range d.Topology.Subtopologies {
			sources[s.SubtopologyID] = slices.Clone(s.SourceTopics)
			for _, t := range s.RepartitionSourceTopics {
				sources[s.SubtopologyID] = append(sources[s.SubtopologyID], t.Topic)
			}
			g.topics = append(g.topics, sources[s.SubtopologyID]...)
		}
	}
	for _, m := range d.Members {
		out := memberLine{Type: "member", Group: d.Group, Member: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
		if m.InstanceID != nil {
			out.Instance = *m.InstanceID
		}
		for _, t := range m.Assignment.ActiveTasks {
			for _, topic := range sources[t.SubtopologyID] {
				for _, p := range t.Partitions {
					g.gives(&out, partitionOf{topic, p})
				}
			}
		}
		for _, t := range slices.Concat(m.Assignment.StandbyTasks, m.Assignment.WarmupTasks) {
			for _, p := range t.Partitions {
				out.Standbys = append(out.Standbys, t.SubtopologyID+"_"+strconv.Itoa(int(p)))
			}
		}
		slices.Sort(out.Standbys)
		g.add(out)
	}
	return g
}

// seen combines the description of a group with its offsets. The partitions are those that members
// own, those of subscribed topics, and those with a committed offset.
func (g assigned) seen(fetched kadm.FetchOffsetsResponse, starts, ends kadm.ListedOffsets) groupSeen {
	out := groupSeen{groupLine: g.groupLine, members: g.members, err: errors.Join(g.err, fetched.Err)}
	all := kadm.TopicsSet{}
	for p := range g.reads {
		all.Add(p.topic, p.partition)
	}
	for _, t := range g.topics {
		for p := range ends[t] {
			all.Add(t, p)
		}
	}
	fetched.Fetched.Each(func(o kadm.OffsetResponse) { all.Add(o.Topic, o.Partition) })
	for _, t := range all.Sorted() {
		for _, p := range t.Partitions {
			if p < 0 {
				continue // the topic does not exist
			}
			at := partitionOf{t.Topic, p}
			l, err := lagOf(at, fetched.Fetched, starts, ends)
			l.Group, l.Member = g.Group, g.reads[at]
			if err == nil {
				out.Lag += l.Lag
			}
			out.parts = append(out.parts, seen(l, err))
		}
	}
	return out
}
