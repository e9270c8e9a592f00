package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
)

// streamsGroupDescribe serves StreamsGroupDescribe (key 89, KIP-1071), version 0.
func (c *call) streamsGroupDescribe(req *kmsg.StreamsGroupDescribeRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
	for _, id := range each(c, req.Groups) {
		rg := kmsg.NewStreamsGroupDescribeResponseGroup()
		rg.Group = id
		var d group.StreamsDescription
		var err error
		if id == "" {
			err = group.ErrInvalidGroupID
		} else {
			d, err = c.groups.DescribeStreamsGroup(c.ctx, id)
		}
		switch {
		case errors.Is(err, group.ErrGroupNotFound):
			rg.ErrorCode, rg.ErrorMessage = c.errorCode(err), c.notFound(id, "streams")
		case err != nil:
			rg.ErrorCode = c.errorCode(err)
		default:
			describeStreamsGroup(&rg, d)
			if req.IncludeAuthorizedOperations {
				rg.AuthorizedOperations = c.operations(acl.Group, id)
			}
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

func describeStreamsGroup(rg *kmsg.StreamsGroupDescribeResponseGroup, d group.StreamsDescription) {
	rg.State, rg.Epoch, rg.AssignmentEpoch = d.State.String(), d.GroupEpoch, d.AssignmentEpoch
	if d.Topology != nil {
		rg.Topology = describedTopology(d.Topology)
	}
	for _, m := range d.Members {
		rm := kmsg.NewStreamsGroupDescribeResponseGroupMember()
		rm.MemberID, rm.MemberEpoch, rm.InstanceID, rm.RackID, rm.ClientID, rm.ClientHost = m.ID, m.Epoch, nonEmpty(m.InstanceID), nonEmpty(m.RackID), m.ClientID, m.ClientHost
		rm.TopologyEpoch, rm.ProcessID = m.TopologyEpoch, m.ProcessID
		if e := m.Endpoint; e != nil {
			rm.UserEndpoint = &kmsg.StreamsGroupDescribeResponseGroupMemberUserEndpoint{Host: e.Host, Port: e.Port}
		}
		for _, t := range m.ClientTags {
			rm.ClientTags = append(rm.ClientTags, kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{Key: t.Key, Value: t.Value})
		}
		rm.Assignment, rm.TargetAssignment = describedTasks(m.Assigned), describedTasks(m.Target)
		rg.Members = append(rg.Members, rm)
	}
}

func describedTasks(r offsets.StreamsTaskRoles) kmsg.StreamsAssignment {
	return kmsg.StreamsAssignment{ActiveTasks: taskIDs(r.Active), StandbyTasks: taskIDs(r.Standby), WarmupTasks: taskIDs(r.Warmup)}
}

func describedTopology(t *offsets.StreamsTopologyValue) *kmsg.StreamsGroupDescribeResponseGroupTopology {
	out := &kmsg.StreamsGroupDescribeResponseGroupTopology{Epoch: t.Epoch, Subtopologies: []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{}}
	for _, s := range t.Subtopologies {
		out.Subtopologies = append(out.Subtopologies, kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{SubtopologyID: s.ID,
			SourceTopics: s.SourceTopics, RepartitionSinkTopics: s.RepartitionSinks,
			StateChangelogTopics: topicInfos(s.Changelogs), RepartitionSourceTopics: topicInfos(s.RepartitionSources)})
	}
	return out
}

func topicInfos(all []offsets.StreamsTopic) (out []kmsg.TopicInfo) {
	for _, t := range all {
		info := kmsg.TopicInfo{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replicas}
		for _, kv := range t.Configs {
			info.Configs = append(info.Configs, kmsg.TopicInfoConfig{Key: kv.Key, Value: kv.Value})
		}
		out = append(out, info)
	}
	return out
}
