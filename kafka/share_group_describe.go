package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
)

// shareGroupDescribe serves ShareGroupDescribe (key 77, KIP-932), version 1.
func (c *call) shareGroupDescribe(req *kmsg.ShareGroupDescribeRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ShareGroupDescribeResponse)
	for _, id := range each(c, req.GroupIDs) {
		rg := kmsg.NewShareGroupDescribeResponseGroup()
		rg.GroupID = id
		var d group.ShareDescription
		var err error
		if id == "" {
			err = group.ErrInvalidGroupID
		} else {
			d, err = c.groups.DescribeShareGroup(c.ctx, id)
		}
		switch {
		case errors.Is(err, group.ErrGroupNotFound):
			rg.ErrorCode, rg.ErrorMessage = c.errorCode(err), c.notFound(id, "share")
		case err != nil:
			rg.ErrorCode = c.errorCode(err)
		default:
			c.describeShareGroup(&rg, d)
			if req.IncludeAuthorizedOperations {
				rg.AuthorizedOperations = c.operations(acl.Group, id)
			}
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

func (c *call) describeShareGroup(rg *kmsg.ShareGroupDescribeResponseGroup, d group.ShareDescription) {
	rg.GroupState, rg.GroupEpoch, rg.AssignmentEpoch, rg.Assignor = d.State.String(), d.GroupEpoch, d.AssignmentEpoch, d.Assignor
	for _, m := range d.Members {
		rm := kmsg.NewShareGroupDescribeResponseGroupMember()
		rm.MemberID, rm.RackID, rm.MemberEpoch, rm.ClientID, rm.ClientHost, rm.SubscribedTopicNames = m.ID, nonEmpty(m.RackID), m.Epoch, m.ClientID, m.ClientHost, m.Topics
		for _, t := range m.Assigned {
			if name, ok := c.s.cluster.TopicName(t.TopicID); ok {
				rm.Assignment.TopicPartitions = append(rm.Assignment.TopicPartitions, kmsg.ShareGroupDescribeResponseGroupMemberAssignmentTopicPartition{TopicID: t.TopicID, Topic: name, Partitions: t.Partitions})
			}
		}
		rg.Members = append(rg.Members, rm)
	}
}
