package kafka

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/topic"
)

// streamsHeartbeatRequest translates a heartbeat of a streams group member. It returns an error
// for a request that is invalid in any group.
func (c *call) streamsHeartbeatRequest(req *kmsg.StreamsGroupHeartbeatRequest) (r group.StreamsHeartbeatRequest, err error) {
	for _, check := range []func(*kmsg.StreamsGroupHeartbeatRequest) error{checkTopicsOf, checkSupported, checkStreamsHeartbeat} {
		if err := check(req); err != nil {
			return r, err
		}
	}
	r = group.StreamsHeartbeatRequest{Group: req.Group, MemberID: req.MemberID, MemberEpoch: req.MemberEpoch, EndpointEpoch: req.EndpointInformationEpoch,
		RackID: orEmpty(req.RackID), ClientID: c.clientID, ClientHost: c.clientHost, RebalanceTimeout: -1,
		Topology: topologyOf(req.Topology), ProcessID: req.ProcessID, ShutdownApplication: req.ShutdownApplication}
	if req.RebalanceTimeoutMillis != -1 { // other negative timeouts are 0, as in Kafka
		r.RebalanceTimeout = max(0, time.Duration(req.RebalanceTimeoutMillis)*time.Millisecond)
	}
	if req.ActiveTasks != nil {
		r.Owned = &offsets.StreamsTaskRoles{Active: tasksOf(req.ActiveTasks), Standby: tasksOf(req.StandbyTasks), Warmup: tasksOf(req.WarmupTasks)}
	}
	if e := req.UserEndpoint; e != nil {
		r.Endpoint = &offsets.StreamsEndpoint{Host: e.Host, Port: e.Port}
	}
	if req.ClientTags != nil {
		r.ClientTags = []offsets.StreamsPair{}
	}
	for _, t := range req.ClientTags {
		r.ClientTags = append(r.ClientTags, offsets.StreamsPair{Key: t.Key, Value: t.Value})
	}
	return r, nil
}

// checkTopicsOf rejects topologies with internal topics or invalid topic names. Kafka:
// KafkaApis.handleStreamsGroupHeartbeat.
func checkTopicsOf(req *kmsg.StreamsGroupHeartbeatRequest) error {
	var internal, invalid []string
	for _, name := range topologyTopics(req.Topology) {
		if topic.IsInternal(name) {
			internal = append(internal, name)
		}
		if topic.ValidateName(name) != nil {
			invalid = append(invalid, name)
		}
	}
	switch {
	case len(internal) > 0:
		return refuse(StreamsInvalidTopology, "Use of Kafka internal topics "+strings.Join(internal, ",")+" in a Kafka Streams topology is prohibited.")
	case len(invalid) > 0:
		return refuse(StreamsInvalidTopology, "Topic names "+strings.Join(invalid, ",")+" are not valid topic names.")
	}
	return nil
}

// topologyTopics returns the names of all topics of a topology, which may be nil, each once.
func topologyTopics(t *kmsg.StreamsGroupHeartbeatRequestTopology) (names []string) {
	if t == nil {
		return nil
	}
	seen := make(map[string]bool)
	add := func(name string) {
		if !seen[name] {
			seen[name], names = true, append(names, name)
		}
	}
	for _, s := range t.Subtopologies {
		for _, list := range [][]string{s.SourceTopics, s.RepartitionSinkTopics} {
			for _, name := range list {
				add(name)
			}
		}
		for _, list := range [][]kmsg.TopicInfo{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			for _, info := range list {
				add(info.Topic)
			}
		}
	}
	return names
}

// checkSupported rejects fields of the protocol that are not supported yet. Kafka:
// throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures.
func checkSupported(req *kmsg.StreamsGroupHeartbeatRequest) error {
	switch {
	case req.InstanceID != nil:
		return refuse(InvalidRequest, "Static membership is not yet supported.")
	case req.TaskOffsets != nil:
		return refuse(InvalidRequest, "TaskOffsets are not supported yet.")
	case req.TaskEndOffsets != nil:
		return refuse(InvalidRequest, "TaskEndOffsets are not supported yet.")
	case len(req.WarmupTasks) > 0:
		return refuse(InvalidRequest, "WarmupTasks are not supported yet.")
	case req.Topology == nil:
		return nil
	}
	for _, s := range req.Topology.Subtopologies {
		if len(s.SourceTopicRegex) > 0 {
			return refuse(InvalidRequest, "Regular expressions for source topics are not supported yet.")
		}
	}
	return nil
}

// checkStreamsHeartbeat rejects invalid heartbeats. Kafka:
// throwIfStreamsGroupHeartbeatRequestIsInvalid.
func checkStreamsHeartbeat(req *kmsg.StreamsGroupHeartbeatRequest) error {
	switch {
	case blank(req.MemberID):
		return refuse(InvalidRequest, "MemberId can't be empty.")
	case blank(req.Group):
		return refuse(InvalidRequest, "GroupId can't be empty.")
	case req.RackID != nil && blank(*req.RackID):
		return refuse(InvalidRequest, "RackId can't be empty.")
	case req.MemberEpoch == 0:
		if err := checkStreamsJoin(req); err != nil {
			return err
		}
	case req.MemberEpoch == -2:
		return refuse(InvalidRequest, "InstanceId can't be null.")
	case req.MemberEpoch < -2:
		return refuse(InvalidRequest, fmt.Sprintf("MemberEpoch is %d, but must be greater than or equal to -2.", req.MemberEpoch))
	}
	if none := req.ActiveTasks == nil; none != (req.StandbyTasks == nil) || none != (req.WarmupTasks == nil) {
		return refuse(InvalidRequest, "If one task-type is non-null, all must be non-null.")
	}
	if req.MemberEpoch != 0 && req.Topology != nil {
		return refuse(InvalidRequest, "Topology can only be provided when (re-)joining.")
	}
	return nil
}

// checkStreamsJoin rejects invalid heartbeats of members that join.
func checkStreamsJoin(req *kmsg.StreamsGroupHeartbeatRequest) error {
	switch {
	case req.RebalanceTimeoutMillis == -1:
		return refuse(InvalidRequest, "RebalanceTimeoutMs must be provided in first request.")
	case req.ActiveTasks == nil || len(req.ActiveTasks) > 0:
		return refuse(InvalidRequest, "ActiveTasks must be empty when (re-)joining.")
	case req.StandbyTasks == nil || len(req.StandbyTasks) > 0:
		return refuse(InvalidRequest, "StandbyTasks must be empty when (re-)joining.")
	case req.WarmupTasks == nil:
		return refuse(InvalidRequest, "WarmupTasks must be empty when (re-)joining.")
	case req.Topology == nil:
		return refuse(InvalidRequest, "Topology must be non-null when (re-)joining.")
	}
	for _, s := range req.Topology.Subtopologies {
		for _, t := range s.StateChangelogTopics {
			if t.NumPartitions != 0 {
				return refuse(StreamsInvalidTopology, fmt.Sprintf("Changelog topic %s must have an undefined partition count, but it is set to %d.", t.Topic, t.NumPartitions))
			}
		}
	}
	return nil
}

func tasksOf(all []kmsg.TaskIDs) []offsets.StreamsTasks {
	out := make([]offsets.StreamsTasks, 0, len(all))
	for _, t := range all {
		out = append(out, offsets.StreamsTasks{Subtopology: t.SubtopologyID, Partitions: t.Partitions})
	}
	return out
}

// topologyOf translates a topology; nil if there is none.
func topologyOf(t *kmsg.StreamsGroupHeartbeatRequestTopology) *offsets.StreamsTopologyValue {
	if t == nil {
		return nil
	}
	out := &offsets.StreamsTopologyValue{Epoch: t.Epoch}
	for _, s := range t.Subtopologies {
		os := offsets.StreamsSubtopology{ID: s.SubtopologyID, SourceTopics: s.SourceTopics, SourceTopicRegex: s.SourceTopicRegex,
			Changelogs: topicsOf(s.StateChangelogTopics), RepartitionSinks: s.RepartitionSinkTopics, RepartitionSources: topicsOf(s.RepartitionSourceTopics)}
		for _, g := range s.CopartitionGroups {
			os.CopartitionGroups = append(os.CopartitionGroups, offsets.StreamsCopartitionGroup{SourceTopics: g.SourceTopics,
				SourceTopicRegex: g.SourceTopicRegex, RepartitionSources: g.RepartitionSourceTopics})
		}
		out.Subtopologies = append(out.Subtopologies, os)
	}
	return out
}

func topicsOf(all []kmsg.TopicInfo) (out []offsets.StreamsTopic) {
	for _, t := range all {
		ot := offsets.StreamsTopic{Name: t.Topic, Partitions: t.NumPartitions, Replicas: t.ReplicationFactor}
		for _, kv := range t.Configs {
			ot.Configs = append(ot.Configs, offsets.StreamsPair{Key: kv.Key, Value: kv.Value})
		}
		out = append(out, ot)
	}
	return out
}
