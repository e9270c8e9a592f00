package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// guardStreamsGroupHeartbeat requires Read on the group, and Describe on each topic of the
// topology. createInternal authorizes the creation of missing topics.
func guardStreamsGroupHeartbeat(c *call, req *kmsg.StreamsGroupHeartbeatRequest) kmsg.Response {
	if !c.allows(acl.Read, acl.Group, req.Group) {
		return refusedStreams(req, GroupAuthorizationFailed)
	}
	if checkTopicsOf(req) != nil {
		return nil // the handler rejects the names
	}
	for _, name := range topologyTopics(req.Topology) {
		if !c.allows(acl.Describe, acl.Topic, name) {
			return refusedStreams(req, TopicAuthorizationFailed)
		}
	}
	return nil
}

// refusedStreams returns a response with an error code and no message, as in Kafka.
func refusedStreams(req *kmsg.StreamsGroupHeartbeatRequest, code Code) kmsg.Response {
	resp := streamsResponse(req)
	resp.ErrorCode = int16(code)
	return resp
}

// hiddenTopology is Kafka's message for a streams group whose topology has topics that the client
// may not describe.
const hiddenTopology = "The described group uses topics that the client is not authorized to describe."

// guardStreamsGroupDescribe requires Describe on each group, and on all topics of its topology.
func guardStreamsGroupDescribe(c *call, req *kmsg.StreamsGroupDescribeRequest) kmsg.Response {
	var denied []string
	req.Groups, denied = split(req.Groups, func(id *string) bool { return c.allows(acl.Describe, acl.Group, *id) })
	return then(c, func(resp *kmsg.StreamsGroupDescribeResponse) {
		for i := range resp.Groups {
			// A group with a hidden topic has only this error, and no other field.
			if g := &resp.Groups[i]; !c.mayDescribeTopology(g.Topology) {
				hidden := kmsg.NewStreamsGroupDescribeResponseGroup()
				hidden.Group, hidden.ErrorCode, hidden.ErrorMessage = g.Group, int16(TopicAuthorizationFailed), kmsg.StringPtr(hiddenTopology)
				*g = hidden
			}
		}
		for _, id := range denied {
			rg := kmsg.NewStreamsGroupDescribeResponseGroup()
			rg.Group, rg.ErrorCode = id, int16(GroupAuthorizationFailed)
			resp.Groups = append(resp.Groups, rg)
		}
	})
}

// mayDescribeTopology reports whether the client may describe all topics of a topology; true for
// nil, a group without a topology.
func (c *call) mayDescribeTopology(t *kmsg.StreamsGroupDescribeResponseGroupTopology) bool {
	if t == nil {
		return true
	}
	for _, s := range t.Subtopologies {
		names := append(append([]string{}, s.SourceTopics...), s.RepartitionSinkTopics...)
		for _, list := range [][]kmsg.TopicInfo{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			for _, info := range list {
				names = append(names, info.Topic)
			}
		}
		for _, name := range names {
			if !c.allows(acl.Describe, acl.Topic, name) {
				return false
			}
		}
	}
	return true
}
