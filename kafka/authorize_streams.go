package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// guardStreamsGroupHeartbeat: Read of the group, Describe of each topic of the topology. Whether
// missing topics may be created is for createInternal.
func guardStreamsGroupHeartbeat(c *call, req *kmsg.StreamsGroupHeartbeatRequest) kmsg.Response {
	if !c.allows(acl.Read, acl.Group, req.Group) {
		return refusedStreams(req, GroupAuthorizationFailed)
	}
	if checkTopicsOf(req) != nil {
		return nil // the handler says what is wrong with their names
	}
	for _, name := range topologyTopics(req.Topology) {
		if !c.allows(acl.Describe, acl.Topic, name) {
			return refusedStreams(req, TopicAuthorizationFailed)
		}
	}
	return nil
}

// refusedStreams answers with an error that Kafka has no words for.
func refusedStreams(req *kmsg.StreamsGroupHeartbeatRequest, code Code) kmsg.Response {
	resp := streamsResponse(req)
	resp.ErrorCode = int16(code)
	return resp
}

// hiddenTopology is said of a streams group whose topology has topics that the client may not
// describe.
const hiddenTopology = "The described group uses topics that the client is not authorized to describe."

// guardStreamsGroupDescribe: Describe of each group, and of all topics of its topology.
func guardStreamsGroupDescribe(c *call, req *kmsg.StreamsGroupDescribeRequest) kmsg.Response {
	var denied []string
	req.Groups, denied = split(req.Groups, func(id *string) bool { return c.allows(acl.Describe, acl.Group, *id) })
	return then(c, func(resp *kmsg.StreamsGroupDescribeResponse) {
		for i := range resp.Groups {
			if g := &resp.Groups[i]; !c.mayDescribeTopology(g.Topology) { // of the rest nothing is told, either
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

// mayDescribeTopology reports whether the client may describe all topics of a topology; nil: it has
// none.
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
