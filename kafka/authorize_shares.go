package kafka

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// guardShareGroupHeartbeat requires Read on the group, and Describe on each topic in the
// subscription.
func guardShareGroupHeartbeat(c *call, req *kmsg.ShareGroupHeartbeatRequest) kmsg.Response {
	if !c.allows(acl.Read, acl.Group, req.GroupID) {
		return refusedWhole(req, GroupAuthorizationFailed)
	}
	for _, name := range req.SubscribedTopicNames {
		if !c.allows(acl.Describe, acl.Topic, name) {
			return refusedWhole(req, TopicAuthorizationFailed)
		}
	}
	return nil
}

// guardShareGroupDescribe requires Describe on each group, and on all topics of its members.
func guardShareGroupDescribe(c *call, req *kmsg.ShareGroupDescribeRequest) kmsg.Response {
	var denied []string
	req.GroupIDs, denied = split(req.GroupIDs, func(id *string) bool { return c.allows(acl.Describe, acl.Group, *id) })
	return then(c, func(resp *kmsg.ShareGroupDescribeResponse) {
		for i := range resp.Groups {
			// A group with a hidden topic has only this error, and no other field.
			if g := &resp.Groups[i]; !c.mayDescribeSharers(g.Members) {
				hidden := kmsg.NewShareGroupDescribeResponseGroup()
				hidden.GroupID, hidden.ErrorCode, hidden.ErrorMessage = g.GroupID, int16(TopicAuthorizationFailed), kmsg.StringPtr(hiddenTopics)
				*g = hidden
			}
		}
		for _, id := range denied {
			rg := kmsg.NewShareGroupDescribeResponseGroup()
			rg.GroupID, rg.ErrorCode = id, int16(GroupAuthorizationFailed)
			resp.Groups = append(resp.Groups, rg)
		}
	})
}

// mayDescribeSharers is mayDescribeMembers for members of a share group.
func (c *call) mayDescribeSharers(members []kmsg.ShareGroupDescribeResponseGroupMember) bool {
	for _, m := range members {
		for _, name := range m.SubscribedTopicNames {
			if !c.allows(acl.Describe, acl.Topic, name) {
				return false
			}
		}
		for _, t := range m.Assignment.TopicPartitions {
			if !c.allows(acl.Describe, acl.Topic, t.Topic) {
				return false
			}
		}
	}
	return true
}

// guardShareGroupState requires ClusterAction on the cluster. The response has an error for each
// partition, none at the top level.
func guardShareGroupState(c *call, req kmsg.Request) kmsg.Response {
	if c.mayCluster(acl.ClusterAction) {
		return nil
	}
	resp := req.ResponseKind()
	topics := reflect.ValueOf(resp).Elem().FieldByName("Topics")
	asked := reflect.ValueOf(req).Elem().FieldByName("Topics")
	for i := range asked.Len() {
		rt := reflect.New(topics.Type().Elem()).Elem()
		rt.FieldByName("TopicID").Set(asked.Index(i).FieldByName("TopicID"))
		to, from := rt.FieldByName("Partitions"), asked.Index(i).FieldByName("Partitions")
		for j := range from.Len() {
			rp := reflect.New(to.Type().Elem())
			if d, ok := rp.Interface().(interface{ Default() }); ok {
				d.Default()
			}
			rp.Elem().FieldByName("Partition").Set(from.Index(j).FieldByName("Partition"))
			rp.Elem().FieldByName("ErrorCode").SetInt(int64(ClusterAuthorizationFailed))
			rp.Elem().FieldByName("ErrorMessage").Set(reflect.ValueOf(authorizationText(ClusterAuthorizationFailed)))
			to.Set(reflect.Append(to, rp.Elem()))
		}
		topics.Set(reflect.Append(topics, rt))
	}
	return resp
}

// guardDescribeShareGroupOffsets requires Describe on each group and on each topic. If the request
// is for all topics of a group, the response leaves out topics that the client may not describe.
func guardDescribeShareGroupOffsets(c *call, req *kmsg.DescribeShareGroupOffsetsRequest) kmsg.Response {
	var denied []kmsg.DescribeShareGroupOffsetsRequestGroup
	req.Groups, denied = split(req.Groups, func(g *kmsg.DescribeShareGroupOffsetsRequestGroup) bool {
		return c.allows(acl.Describe, acl.Group, g.GroupID)
	})
	hidden := make([][]kmsg.DescribeShareGroupOffsetsRequestGroupTopic, len(req.Groups))
	groups := make([]kmsg.DescribeShareGroupOffsetsRequestGroup, len(req.Groups))
	for i, g := range req.Groups {
		if groups[i] = g; g.Topics != nil {
			groups[i].Topics, hidden[i] = split(g.Topics, func(t *kmsg.DescribeShareGroupOffsetsRequestGroupTopic) bool {
				return c.allows(acl.Describe, acl.Topic, t.Topic)
			})
		}
	}
	req.Groups = groups
	return then(c, func(resp *kmsg.DescribeShareGroupOffsetsResponse) {
		for i := range resp.Groups { // one for each of req.Groups, in their order
			g := &resp.Groups[i]
			g.Topics, _ = split(g.Topics, func(t *kmsg.DescribeShareGroupOffsetsResponseGroupTopic) bool {
				return c.allows(acl.Describe, acl.Topic, t.Topic)
			})
			for _, t := range hidden[i] {
				rt := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
				rt.Topic = t.Topic
				for _, p := range t.Partitions {
					rp := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
					rp.Partition, rp.ErrorCode, rp.ErrorMessage = p, int16(TopicAuthorizationFailed), authorizationText(TopicAuthorizationFailed)
					rp.StartOffset, rp.Lag = -1, -1
					rt.Partitions = append(rt.Partitions, rp)
				}
				g.Topics = append(g.Topics, rt)
			}
		}
		for _, d := range denied {
			rg := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
			rg.GroupID, rg.ErrorCode, rg.ErrorMessage = d.GroupID, int16(GroupAuthorizationFailed), authorizationText(GroupAuthorizationFailed)
			resp.Groups = append(resp.Groups, rg)
		}
	})
}

// guardAlterShareGroupOffsets requires Read on the group and on each topic. If the group has an
// error, the response has no topics. Topic ids are returned only to clients with Describe; Kafka
// returns them to all clients.
func guardAlterShareGroupOffsets(c *call, req *kmsg.AlterShareGroupOffsetsRequest) kmsg.Response {
	if !c.allows(acl.Read, acl.Group, req.GroupID) {
		return refusedWhole(req, GroupAuthorizationFailed)
	}
	var denied []kmsg.AlterShareGroupOffsetsRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.AlterShareGroupOffsetsRequestTopic) bool { return c.allows(acl.Read, acl.Topic, t.Topic) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.AlterShareGroupOffsetsResponse) {
		if resp.ErrorCode != 0 {
			return // an error of the group, without topics
		}
		for _, t := range denied {
			rt := kmsg.NewAlterShareGroupOffsetsResponseTopic()
			if rt.Topic = t.Topic; c.allows(acl.Describe, acl.Topic, t.Topic) {
				rt.TopicID, _ = c.s.cluster.TopicID(t.Topic)
			}
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.AlterShareGroupOffsetsResponseTopicPartition{Partition: p.Partition,
					ErrorCode: int16(TopicAuthorizationFailed), ErrorMessage: authorizationText(TopicAuthorizationFailed)})
			}
			if len(t.Partitions) > 0 {
				resp.Topics = append(resp.Topics, rt)
			}
		}
	})
}

// guardDeleteShareGroupOffsets requires Delete on the group and Read on each topic.
func guardDeleteShareGroupOffsets(c *call, req *kmsg.DeleteShareGroupOffsetsRequest) kmsg.Response {
	if !c.allows(acl.Delete, acl.Group, req.GroupID) {
		return refusedWhole(req, GroupAuthorizationFailed)
	}
	var denied []kmsg.DeleteShareGroupOffsetsRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.DeleteShareGroupOffsetsRequestTopic) bool { return c.allows(acl.Read, acl.Topic, t.Topic) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.DeleteShareGroupOffsetsResponse) {
		if resp.ErrorCode != 0 {
			return // an error of the group, without topics
		}
		for _, t := range denied {
			rt := kmsg.NewDeleteShareGroupOffsetsResponseTopic()
			rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, int16(TopicAuthorizationFailed), authorizationText(TopicAuthorizationFailed)
			resp.Topics = append(resp.Topics, rt)
		}
	})
}
