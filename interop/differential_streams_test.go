package interop

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests about streams groups (KIP-1071): heartbeats of two members with a topology over the
// script's topics. The members join, report their tasks, leave, and send invalid fields.

// streamsTheme lists the APIs of scripts about streams groups.
var streamsTheme = []int16{88, 88, 88, 88, 88, 88, 88, 89, 89, 89, 8, 9, 15, 16, 42, 47, 68, 69, 11, 3}

// streamsSeeds is the number of scripts among which one is about streams groups.
const streamsSeeds = 8

// A streamsMember is the script's view of a member of the streams group.
type streamsMember struct {
	id    string
	epoch int32
	tasks []kmsg.TaskIDs // active tasks of the last assignment
}

// streamsGroup is the index of the streams group in model.groups.
const streamsGroup = 3

// member returns the member with an id; nil if the script has none.
func (m *model) member(id string) *streamsMember {
	for _, s := range m.streams {
		if s.id == id {
			return s
		}
	}
	return nil
}

// learnStreams updates a member from the answer to its heartbeat.
func (m *model) learnStreams(q *kmsg.StreamsGroupHeartbeatRequest, r *kmsg.StreamsGroupHeartbeatResponse) {
	s, g := m.member(q.MemberID), m.groups[streamsGroup]
	if s == nil || q.Group != g.name {
		return
	}
	switch {
	case r.ErrorCode == 110 || r.ErrorCode == 25 || r.ErrorCode == 69 || r.ErrorCode == 0 && r.MemberEpoch < 0:
		s.epoch, s.tasks = 0, nil // it joins again
	case r.ErrorCode == 0:
		if s.epoch = r.MemberEpoch; r.ActiveTasks != nil {
			s.tasks = r.ActiveTasks
		}
	}
	g.member, g.epoch = s.id, s.epoch
}

// heartbeat replaces a random heartbeat of a streams group with a mostly valid one.
func (g *gen) heartbeat(req *kmsg.StreamsGroupHeartbeatRequest) {
	if g.one(6) { // keep the random fields
		return
	}
	s := pick(g, g.m.streams...)
	version := req.Version
	*req = kmsg.NewStreamsGroupHeartbeatRequest()
	req.Version = version
	req.Group, req.MemberID, req.MemberEpoch = g.m.groups[streamsGroup].name, s.id, s.epoch
	switch {
	case s.epoch == 0 || g.one(20):
		req.MemberEpoch = 0
		req.RebalanceTimeoutMillis, req.Topology, req.ProcessID = 60_000, g.topology(), ptr(pick(g, s.id, s.id, "the-"+s.id, ""))
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	case g.one(15):
		req.MemberEpoch = -1
	case !g.one(3): // it owns its assigned tasks
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = append([]kmsg.TaskIDs{}, s.tasks...), []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
	if g.one(6) {
		g.spoil(req)
	}
}

// topology returns the application's topology, or sometimes a changed one.
func (g *gen) topology() *kmsg.StreamsGroupHeartbeatRequestTopology {
	m := g.m
	t := &kmsg.StreamsGroupHeartbeatRequestTopology{Epoch: 1, Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
		{SubtopologyID: "0", SourceTopics: []string{m.topics[0].name}},
		{SubtopologyID: "1", SourceTopics: []string{m.topics[1].name}, StateChangelogTopics: []kmsg.TopicInfo{{Topic: m.name(changelog)}}},
	}}
	if !g.one(6) {
		return t
	}
	last := &t.Subtopologies[1]
	switch g.rng.IntN(13) {
	case 0:
		t.Epoch = pick[int32](g, -1, 0, 2)
	case 1:
		last.SubtopologyID = "0"
	case 2:
		last.SourceTopics = []string{m.topics[0].name, m.topics[1].name}
		last.CopartitionGroups = []kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{{SourceTopics: []int16{0, pick[int16](g, 0, 1, 2)}}}
	case 3:
		last.StateChangelogTopics[0].NumPartitions = 2
	case 4:
		last.SourceTopics = []string{pick(g, "__consumer_offsets", "a/b", "", m.name("absent"))}
	case 5:
		last.SourceTopicRegex = []string{"x.*"}
	case 6:
		last.RepartitionSourceTopics = []kmsg.TopicInfo{{Topic: m.name(repartition), NumPartitions: pick[int32](g, 0, 1, 2)}}
	case 7:
		last.RepartitionSinkTopics = []string{m.name(repartition)}
	case 8:
		last.SourceTopics = nil
	case 9:
		t.Subtopologies = nil
	case 10:
		last.StateChangelogTopics[0].Configs = []kmsg.TopicInfoConfig{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}}
	case 11:
		t.Subtopologies[0], t.Subtopologies[1] = t.Subtopologies[1], t.Subtopologies[0]
	case 12:
		t.Subtopologies = t.Subtopologies[:1]
	}
	return t
}

// The internal topics of a script's application.
const changelog, repartition = "x-changelog", "x-repartition"

// spoil changes a field of a heartbeat.
func (g *gen) spoil(req *kmsg.StreamsGroupHeartbeatRequest) {
	task := func(subtopology string, partition int32) []kmsg.TaskIDs {
		return []kmsg.TaskIDs{{SubtopologyID: subtopology, Partitions: []int32{partition}}}
	}
	switch g.rng.IntN(18) {
	case 0:
		req.InstanceID = ptr(pick(g, "i", ""))
	case 1:
		req.RackID = ptr(pick(g, "r", "", " "))
	case 2:
		req.RebalanceTimeoutMillis = pick[int32](g, -2, -1, 0, 1)
	case 3:
		req.Topology = nil
	case 4:
		req.Topology = g.topology()
	case 5:
		req.WarmupTasks = task("0", 0)
	case 6:
		*pick(g, &req.ActiveTasks, &req.StandbyTasks, &req.WarmupTasks) = nil
	case 7:
		req.ActiveTasks = task("7", 0)
	case 8:
		req.ActiveTasks = task("0", pick[int32](g, 99, -1))
	case 9:
		req.MemberEpoch += pick[int32](g, 1, -1, -2, -3, 99)
	case 10:
		req.TaskOffsets = []kmsg.TaskOffset{}
	case 11:
		req.TaskEndOffsets = []kmsg.TaskOffset{}
	case 12:
		req.ShutdownApplication = true
	case 13:
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "zone", Value: pick(g, "a", "b")}}
	case 14:
		req.MemberID = pick(g, "", " ", "nobody")
	case 15:
		req.Group = pick(g, "", g.m.name("absent"), g.m.groups[0].name, g.m.groups[1].name, g.m.groups[2].name)
	case 16:
		req.ProcessID = nil
	case 17:
		req.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "here", Port: pick[uint16](g, 0, 7)}
	}
}

// internalTopics waits until both brokers have the internal topics that a heartbeat's answer
// reports as being created, and until the coordinators have read them.
func (r *referee) internalTopics(resp *kmsg.StreamsGroupHeartbeatResponse, m *model) error {
	being := false
	for _, s := range resp.Status {
		being = being || s.StatusCode == 3 && strings.Contains(s.StatusDetail, m.prefix) && !strings.Contains(s.StatusDetail, "fail") && !strings.Contains(s.StatusDetail, "Unauthorized")
	}
	if !being {
		return nil
	}
	ask := kmsg.NewPtrMetadataRequest()
	ask.Version = 12
	for _, n := range []string{changelog, repartition} {
		if name := m.name(n); strings.Contains(jsonOf(resp), name) {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &name
			ask.Topics = append(ask.Topics, t)
		}
	}
	for _, c := range []*wireClient{r.super.theirs, r.super.ours} {
		err := until(func() (bool, error) {
			got, err := c.ask(ask)
			if err != nil || got == nil {
				return false, err
			}
			for _, t := range got.(*kmsg.MetadataResponse).Topics {
				if t.ErrorCode != 0 {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return r.settle()
}
