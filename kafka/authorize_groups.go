package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// groupOf returns the guard of a member's requests, which require Read on its group.
func groupOf[Q kmsg.Request](id func(Q) string) guard {
	return guarded(func(c *call, req Q) kmsg.Response {
		if c.allows(acl.Read, acl.Group, id(req)) {
			return nil
		}
		return refusedWhole(req, GroupAuthorizationFailed)
	})
}

// guardOffsetCommit requires Read on the group and on each topic.
func guardOffsetCommit(c *call, req *kmsg.OffsetCommitRequest) kmsg.Response {
	code, denied := GroupAuthorizationFailed, req.Topics
	if c.allows(acl.Read, acl.Group, req.Group) {
		code = TopicAuthorizationFailed
		req.Topics, denied = split(req.Topics, func(t *kmsg.OffsetCommitRequestTopic) bool {
			name, known := c.topicByID(t.Topic, t.TopicID, 10)
			return !known || c.allows(acl.Read, acl.Topic, name)
		})
		if len(denied) == 0 {
			return nil
		}
	}
	add := func(resp *kmsg.OffsetCommitResponse) {
		for _, t := range denied {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(code)})
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	if code == TopicAuthorizationFailed && len(req.Topics) > 0 {
		return then(c, add)
	}
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	add(resp)
	return resp
}

// guardOffsetFetch requires Describe on each group and on each topic. If the request is for all
// topics of a group, the response leaves out topics that the client may not describe.
func guardOffsetFetch(c *call, req *kmsg.OffsetFetchRequest) kmsg.Response {
	if c.version < 8 {
		return guardOffsetFetchOne(c, req)
	}
	var denied []kmsg.OffsetFetchRequestGroup
	req.Groups, denied = split(req.Groups, func(g *kmsg.OffsetFetchRequestGroup) bool { return c.allows(acl.Describe, acl.Group, g.Group) })
	hidden := make([][]kmsg.OffsetFetchRequestGroupTopic, len(req.Groups))
	groups := make([]kmsg.OffsetFetchRequestGroup, len(req.Groups))
	for i, g := range req.Groups {
		if groups[i] = g; g.Topics != nil {
			groups[i].Topics, hidden[i] = split(g.Topics, func(t *kmsg.OffsetFetchRequestGroupTopic) bool {
				name, known := c.topicByID(t.Topic, t.TopicID, 10)
				return !known || c.allows(acl.Describe, acl.Topic, name)
			})
		}
	}
	req.Groups = groups
	return then(c, func(resp *kmsg.OffsetFetchResponse) {
		for i := range resp.Groups { // one for each of req.Groups, in their order
			g := &resp.Groups[i]
			g.Topics, _ = split(g.Topics, func(t *kmsg.OffsetFetchResponseGroupTopic) bool {
				name, known := c.topicByID(t.Topic, t.TopicID, 10)
				return !known || c.allows(acl.Describe, acl.Topic, name)
			})
			if g.ErrorCode == 0 {
				for _, t := range hidden[i] {
					g.Topics = append(g.Topics, noOffsets(t, int16(TopicAuthorizationFailed)))
				}
			}
		}
		for _, g := range denied {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group, rg.ErrorCode = g.Group, int16(GroupAuthorizationFailed)
			resp.Groups = append(resp.Groups, rg)
		}
	})
}

func guardOffsetFetchOne(c *call, req *kmsg.OffsetFetchRequest) kmsg.Response {
	code, denied := GroupAuthorizationFailed, req.Topics
	if c.allows(acl.Describe, acl.Group, req.Group) {
		code, denied = TopicAuthorizationFailed, nil
		if req.Topics != nil {
			req.Topics, denied = split(req.Topics, func(t *kmsg.OffsetFetchRequestTopic) bool { return c.allows(acl.Describe, acl.Topic, t.Topic) })
		}
	}
	add := func(resp *kmsg.OffsetFetchResponse) {
		resp.Topics, _ = split(resp.Topics, func(t *kmsg.OffsetFetchResponseTopic) bool { return c.allows(acl.Describe, acl.Topic, t.Topic) })
		if resp.ErrorCode != 0 {
			return
		}
		for _, t := range denied {
			rt := kmsg.NewOffsetFetchResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetFetchResponseTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p, -1, -1, kmsg.StringPtr(""), int16(code)
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	if code == TopicAuthorizationFailed {
		return then(c, add)
	}
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if c.version >= 2 {
		resp.ErrorCode = int16(code)
	}
	add(resp)
	return resp
}

// guardFindCoordinator requires Describe on the group or on the transactional id, and
// ClusterAction on the cluster for the coordinator of share group state.
func guardFindCoordinator(c *call, req *kmsg.FindCoordinatorRequest) kmsg.Response {
	if c.version < 4 {
		code := c.mayFind(req.CoordinatorType, req.CoordinatorKey)
		if code == 0 {
			return nil
		}
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Port = int16(code), authorizationText(code), -1, -1
		return resp
	}
	var refused []kmsg.FindCoordinatorResponseCoordinator
	req.CoordinatorKeys, _ = split(req.CoordinatorKeys, func(key *string) bool {
		code := c.mayFind(req.CoordinatorType, *key)
		if code != 0 {
			r := kmsg.NewFindCoordinatorResponseCoordinator()
			r.Key, r.NodeID, r.Port, r.ErrorCode, r.ErrorMessage = *key, -1, -1, int16(code), authorizationText(code)
			refused = append(refused, r)
		}
		return code == 0
	})
	if len(refused) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.FindCoordinatorResponse) { resp.Coordinators = append(resp.Coordinators, refused...) })
}

func (c *call) mayFind(kind int8, key string) Code {
	switch {
	case (kind == coordinatorGroup || c.version == 0) && !c.allows(acl.Describe, acl.Group, key):
		return GroupAuthorizationFailed
	case kind == coordinatorTransaction && c.version > 0 && !c.allows(acl.Describe, acl.TransactionalID, key):
		return TransactionalIDAuthorizationFailed
	case kind == coordinatorShare && c.version >= 6 && !c.mayCluster(acl.ClusterAction):
		return ClusterAuthorizationFailed
	}
	return 0
}

func guardDescribeGroups(c *call, req *kmsg.DescribeGroupsRequest) kmsg.Response {
	var denied []string
	if req.Groups, denied = split(req.Groups, func(id *string) bool { return c.allows(acl.Describe, acl.Group, *id) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.DescribeGroupsResponse) {
		for _, id := range denied {
			rg := kmsg.NewDescribeGroupsResponseGroup()
			rg.Group, rg.ErrorCode = id, int16(GroupAuthorizationFailed)
			resp.Groups = append(resp.Groups, rg)
		}
	})
}

// guardListGroups requires Describe on the cluster. Without it the response has only groups that
// the client may describe.
func guardListGroups(c *call, _ *kmsg.ListGroupsRequest) kmsg.Response {
	if c.mayCluster(acl.Describe) {
		return nil
	}
	return then(c, func(resp *kmsg.ListGroupsResponse) {
		resp.Groups, _ = split(resp.Groups, func(g *kmsg.ListGroupsResponseGroup) bool { return c.allows(acl.Describe, acl.Group, g.Group) })
	})
}

func guardDeleteGroups(c *call, req *kmsg.DeleteGroupsRequest) kmsg.Response {
	var denied []string
	if req.Groups, denied = split(req.Groups, func(id *string) bool { return c.allows(acl.Delete, acl.Group, *id) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.DeleteGroupsResponse) {
		answered := map[string]bool{}
		for _, id := range denied {
			if !answered[id] {
				answered[id] = true
				rg := kmsg.NewDeleteGroupsResponseGroup()
				rg.Group, rg.ErrorCode = id, int16(GroupAuthorizationFailed)
				resp.Groups = append(resp.Groups, rg)
			}
		}
	})
}

// guardOffsetDelete requires Delete on the group and Read on each topic.
func guardOffsetDelete(c *call, req *kmsg.OffsetDeleteRequest) kmsg.Response {
	if !c.allows(acl.Delete, acl.Group, req.Group) {
		return refusedWhole(req, GroupAuthorizationFailed)
	}
	var denied []kmsg.OffsetDeleteRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.OffsetDeleteRequestTopic) bool { return c.allows(acl.Read, acl.Topic, t.Topic) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.OffsetDeleteResponse) {
		if resp.ErrorCode != 0 {
			return
		}
		for _, t := range denied {
			rt := kmsg.NewOffsetDeleteResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(TopicAuthorizationFailed)})
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
}

// guardConsumerGroupHeartbeat requires Read on the group, and Describe on each topic in the
// subscription. Regular expressions need no permission, see describes.
func guardConsumerGroupHeartbeat(c *call, req *kmsg.ConsumerGroupHeartbeatRequest) kmsg.Response {
	if !c.allows(acl.Read, acl.Group, req.Group) {
		return refusedWhole(req, GroupAuthorizationFailed)
	}
	for _, name := range req.SubscribedTopicNames {
		if !c.allows(acl.Describe, acl.Topic, name) {
			return refusedWhole(req, TopicAuthorizationFailed)
		}
	}
	return nil
}

// describes returns a function that reports whether the client may describe a topic; nil if it may
// describe all. The function does not refer to the call. Regular expressions match only these
// topics, without an error for others.
func (c *call) describes() func(name string) bool {
	may, who := c.may, c.who
	if may == nil {
		return nil
	}
	return func(name string) bool {
		return may.Allows(who, acl.Describe, acl.Resource{Type: acl.Topic, Name: name})
	}
}

// hiddenTopics is Kafka's message for a group whose members have topics that the client may not
// describe.
const hiddenTopics = "The group has described topic(s) that the client is not authorized to describe."

// guardConsumerGroupDescribe requires Describe on each group, and on all topics of its members.
func guardConsumerGroupDescribe(c *call, req *kmsg.ConsumerGroupDescribeRequest) kmsg.Response {
	var denied []string
	req.Groups, denied = split(req.Groups, func(id *string) bool { return c.allows(acl.Describe, acl.Group, *id) })
	return then(c, func(resp *kmsg.ConsumerGroupDescribeResponse) {
		for i := range resp.Groups {
			// A group with a hidden topic has only this error, and no other field.
			if g := &resp.Groups[i]; !c.mayDescribeMembers(g.Members) {
				hidden := kmsg.NewConsumerGroupDescribeResponseGroup()
				hidden.Group, hidden.ErrorCode, hidden.ErrorMessage = g.Group, int16(TopicAuthorizationFailed), kmsg.StringPtr(hiddenTopics)
				*g = hidden
			}
		}
		for _, id := range denied {
			rg := kmsg.NewConsumerGroupDescribeResponseGroup()
			rg.Group, rg.ErrorCode = id, int16(GroupAuthorizationFailed)
			resp.Groups = append(resp.Groups, rg)
		}
	})
}

// mayDescribeMembers reports whether the client may describe every topic that members subscribe to
// or are assigned.
func (c *call) mayDescribeMembers(members []kmsg.ConsumerGroupDescribeResponseGroupMember) bool {
	for _, m := range members {
		for _, name := range m.SubscribedTopics {
			if !c.allows(acl.Describe, acl.Topic, name) {
				return false
			}
		}
		for _, t := range append(slices.Clone(m.Assignment.TopicPartitions), m.TargetAssignment.TopicPartitions...) {
			if !c.allows(acl.Describe, acl.Topic, t.Topic) {
				return false
			}
		}
	}
	return true
}
