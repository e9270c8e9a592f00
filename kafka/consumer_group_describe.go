package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
)

// Types of members. Kafka: ConsumerGroupMember.useClassicProtocol.
const (
	classicMember  = 0
	consumerMember = 1
)

// consumerGroupDescribe serves ConsumerGroupDescribe (key 69, KIP-848), versions 0 and 1. Version
// 1 adds the type of each member. A group of another type is not found. Partitions of a topic that
// no longer exists are left out, because it has no name. A member without a regular expression has
// an empty one, as in Kafka.
func (c *call) consumerGroupDescribe(req *kmsg.ConsumerGroupDescribeRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	for _, id := range each(c, req.Groups) {
		rg := kmsg.NewConsumerGroupDescribeResponseGroup()
		rg.Group = id
		var d group.ConsumerDescription
		var err error
		if id == "" {
			err = group.ErrInvalidGroupID
		} else {
			d, err = c.groups.DescribeConsumerGroup(c.ctx, id)
		}
		switch {
		case errors.Is(err, group.ErrGroupNotFound):
			rg.ErrorCode, rg.ErrorMessage = c.errorCode(err), c.notFound(id, "consumer")
		case err != nil:
			rg.ErrorCode = c.errorCode(err)
		default:
			c.describeConsumerGroup(&rg, d)
			if req.IncludeAuthorizedOperations {
				rg.AuthorizedOperations = c.operations(acl.Group, id)
			}
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

func (c *call) describeConsumerGroup(rg *kmsg.ConsumerGroupDescribeResponseGroup, d group.ConsumerDescription) {
	rg.State, rg.Epoch, rg.AssignmentEpoch, rg.AssignorName = d.State.String(), d.GroupEpoch, d.AssignmentEpoch, d.Assignor
	for _, m := range d.Members {
		rm := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		rm.MemberID, rm.InstanceID, rm.RackID, rm.MemberEpoch = m.ID, nonEmpty(m.InstanceID), nonEmpty(m.RackID), m.Epoch
		rm.ClientID, rm.ClientHost = m.ClientID, m.ClientHost
		rm.SubscribedTopics, rm.SubscribedTopicRegex = m.Topics, &m.Regex
		rm.Assignment, rm.TargetAssignment = c.named(m.Assigned), c.named(m.Target)
		rm.MemberType = consumerMember
		if m.Classic {
			rm.MemberType = classicMember
		}
		rg.Members = append(rg.Members, rm)
	}
}

// named adds the names of topics to partitions. It leaves out topics that do not exist.
func (c *call) named(ts []offsets.TopicIDPartitions) (a kmsg.Assignment) {
	for _, t := range ts {
		if name, ok := c.s.cluster.TopicName(t.TopicID); ok {
			a.TopicPartitions = append(a.TopicPartitions, kmsg.AssignmentTopicPartition{TopicID: t.TopicID, Topic: name, Partitions: t.Partitions})
		}
	}
	return a
}
