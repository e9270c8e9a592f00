package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
)

// describeGroups serves DescribeGroups. A group that does not exist, or is not a classic group,
// has the state Dead. From version 6 on it also has the error GROUP_ID_NOT_FOUND (KIP-1043). Key
// 15, versions 0 to 6.
func (c *call) describeGroups(req *kmsg.DescribeGroupsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, id := range each(c, req.Groups) {
		rg := kmsg.NewDescribeGroupsResponseGroup()
		rg.Group = id
		info, err := c.groups.Describe(c.ctx, id)
		switch {
		case errors.Is(err, group.ErrGroupNotFound), err == nil && info.Type != group.Classic:
			rg.State = group.Dead.String()
			if req.Version >= 6 {
				rg.ErrorCode, rg.ErrorMessage = int16(GroupIDNotFound), c.notFound(id, "classic")
			}
		case err != nil:
			rg.ErrorCode = c.errorCode(err)
		default:
			describeGroup(&rg, info)
		}
		if req.IncludeAuthorizedOperations && rg.ErrorCode == 0 {
			rg.AuthorizedOperations = c.operations(acl.Group, id)
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

// describeGroup fills in a group that exists. The chosen protocol and the members' metadata are
// included only for stable groups.
func describeGroup(rg *kmsg.DescribeGroupsResponseGroup, info group.Info) {
	rg.State, rg.ProtocolType = info.State.String(), info.ProtocolType
	if info.State == group.Stable {
		rg.Protocol = info.Protocol
	}
	for _, m := range info.Members {
		rm := kmsg.NewDescribeGroupsResponseGroupMember()
		rm.MemberID, rm.InstanceID, rm.ClientID, rm.ClientHost = m.ID, nonEmpty(m.InstanceID), m.ClientID, m.ClientHost
		rm.ProtocolMetadata, rm.MemberAssignment = m.SubscriptionData, m.AssignmentData
		rg.Members = append(rg.Members, rm)
	}
}
