package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
)

// leaveGroup serves LeaveGroup: one member and one error up to version 2, a list of both from 3 on
// (KIP-345). Key 13, versions 0 to 5.
func (c *call) leaveGroup(req *kmsg.LeaveGroupRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	members := req.Members
	if req.Version < 3 {
		members = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	r := group.LeaveRequest{Group: req.Group}
	for _, m := range members {
		if nameless(m.InstanceID) {
			continue
		}
		r.Members = append(r.Members, group.LeaveMember{MemberID: m.MemberID, InstanceID: orEmpty(m.InstanceID), Reason: orEmpty(m.Reason)})
	}
	left, err := c.groups.Leave(c.ctx, r)
	errs := make([]error, len(members))
	for i, m := range members {
		switch {
		case nameless(m.InstanceID):
			errs[i] = group.ErrUnknownMember
		case err == nil:
			errs[i], left = left[0], left[1:]
		}
	}
	switch {
	case err != nil:
		resp.ErrorCode = c.errorCode(err)
	case req.Version < 3:
		resp.ErrorCode = c.errorCode(errs[0])
	default:
		for i, m := range members {
			rm := kmsg.NewLeaveGroupResponseMember()
			rm.MemberID, rm.InstanceID, rm.ErrorCode = m.MemberID, m.InstanceID, c.errorCode(errs[i])
			resp.Members = append(resp.Members, rm)
		}
	}
	return resp
}

// nameless reports whether an instance id is present but empty. No member has such an id.
func nameless(instance *string) bool { return instance != nil && *instance == "" }
