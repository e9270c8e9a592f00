package kafka

import (
	"bytes"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
)

// joinGroup serves JoinGroup. It waits until the other members have joined; if the connection ends
// first, a member that has not been told its id is taken out of the group again.
// Key 11, versions 0 to 9.
func (c *call) joinGroup(req *kmsg.JoinGroupRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.Generation = -1
	if req.Version < 7 { // not nullable before
		resp.Protocol = kmsg.StringPtr("")
	}
	joined, err := c.groups.Join(c.ctx, c.joinRequest(req))
	resp.MemberID = joined.MemberID
	var again *group.MemberIDRequiredError
	if errors.As(err, &again) {
		resp.MemberID = again.MemberID
	}
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	resp.Generation, resp.LeaderID = joined.Generation, joined.Leader
	resp.ProtocolType, resp.Protocol = &joined.ProtocolType, &joined.ProtocolName
	resp.SkipAssignment = joined.SkipAssignment
	for _, m := range joined.Members {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ProtocolMetadata = m.MemberID, nonEmpty(m.InstanceID), m.Metadata
		resp.Members = append(resp.Members, rm)
	}
	return resp
}

func (c *call) joinRequest(req *kmsg.JoinGroupRequest) group.JoinRequest {
	r := group.JoinRequest{
		Group: req.Group, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), ClientID: c.clientID, ClientHost: c.clientHost,
		ProtocolType:   req.ProtocolType,
		SessionTimeout: time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		// Version 0 had one timeout for both.
		RequireMemberID: req.Version >= 4, SkipAssignment: req.Version >= 9, Reason: orEmpty(req.Reason),
		Describes: c.describes(),
	}
	if req.Version >= 1 {
		r.RebalanceTimeout = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	for _, p := range req.Protocols {
		// The group keeps them for as long as the member lives; the request's
		// buffer ends with the request.
		r.Protocols = append(r.Protocols, assignor.Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)})
	}
	return r
}

// orEmpty reads a nullable string whose null means the same as nothing in it.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// nonEmpty is the inverse of orEmpty.
func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
