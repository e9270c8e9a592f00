package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
)

// heartbeat serves Heartbeat. Key 12, versions 0 to 4.
func (c *call) heartbeat(req *kmsg.HeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	err := c.groups.Heartbeat(c.ctx, group.HeartbeatRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), Generation: req.Generation})
	if err == nil && nameless(req.InstanceID) {
		err = group.ErrUnknownMember
	}
	resp.ErrorCode = c.errorCode(err)
	return resp
}
