package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
)

// syncGroup serves SyncGroup. It waits for the group leader's assignments. Key 14, versions 0 to
// 5.
func (c *call) syncGroup(req *kmsg.SyncGroupRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	r := group.SyncRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), Generation: req.Generation,
		ProtocolType: orEmpty(req.ProtocolType), ProtocolName: orEmpty(req.Protocol), NamesProtocol: req.Version >= 5, Assignments: make(map[string][]byte, len(req.GroupAssignment))}
	var err error
	switch {
	case req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil):
		// both are mandatory from version 5 on (KIP-559), and checked before all else
		err = group.ErrInconsistentProtocol
	case req.Group == "":
		err = group.ErrInvalidGroupID
	case nameless(req.InstanceID):
		err = group.ErrUnknownMember
	}
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	k := c.groupCharge()
	for _, a := range req.GroupAssignment {
		if err == nil {
			r.Assignments[a.MemberID], err = k.clone(a.MemberAssignment) // the group keeps it
		}
	}
	var synced group.SyncResponse
	if err == nil {
		synced, err = c.groups.Sync(c.ctx, r)
	}
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &synced.ProtocolType, &synced.ProtocolName, synced.Assignment
	return resp
}
