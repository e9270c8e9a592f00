package kafka

import (
	"bytes"
	"errors"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
)

// joinGroup serves JoinGroup. It waits until the other members have joined. If the connection ends
// first, a member that has not received its id is removed from the group. Key 11, versions 0 to 9.
func (c *call) joinGroup(req *kmsg.JoinGroupRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.Generation = -1
	if req.Version < 7 { // not nullable before
		resp.Protocol = kmsg.StringPtr("")
	}
	r, err := c.joinRequest(req)
	var joined group.JoinResponse
	if err == nil {
		joined, err = c.join(r)
	}
	resp.MemberID = joined.MemberID
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

// join joins a group. A client that must join again with the returned member id is charged for
// that id. The group keeps the id until the session timeout of the request has passed.
func (c *call) join(r group.JoinRequest) (group.JoinResponse, error) {
	if r.MemberID != "" || r.InstanceID != "" || !r.RequireMemberID {
		return c.groups.Join(c.ctx, r)
	}
	k, n := c.groupCharge(), memberBytes+len(r.Group)+len(r.ClientID)
	if err := k.take(n); err != nil {
		return group.JoinResponse{}, err
	}
	joined, err := c.groups.Join(c.ctx, r)
	var again *group.MemberIDRequiredError
	if errors.As(err, &again) {
		joined.MemberID = again.MemberID
		until(k, unsafe.StringData(again.MemberID), n)
	} else {
		k.give(n)
	}
	return joined, err
}

// joinRequest translates req. It copies the protocols: the group keeps them while the member
// exists, and the memory of the request is released after the response. It returns
// group.ErrGroupMaxSize if there is no memory for them.
func (c *call) joinRequest(req *kmsg.JoinGroupRequest) (group.JoinRequest, error) {
	r := group.JoinRequest{
		Group: req.Group, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), ClientID: c.clientID, ClientHost: c.clientHost,
		ProtocolType:   req.ProtocolType,
		SessionTimeout: time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		// Version 0 had one timeout for both.
		RequireMemberID: req.Version >= 4, SkipAssignment: req.Version >= 9, Reason: orEmpty(req.Reason),
		Describes: c.describes(), Owner: c.conn.ownedBy,
	}
	if req.Version >= 1 {
		r.RebalanceTimeout = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	if len(req.Protocols) == 0 {
		return r, nil
	}
	k := c.groupCharge()
	n := memberBytes + len(r.MemberID) + 2*len(r.InstanceID) + 2*len(r.ClientID) + len(r.ProtocolType) // a new id begins with either
	if r.MemberID == "" {
		if err := k.texts(groupBytes, &r.Group); err != nil {
			return r, err
		}
	}
	for _, p := range req.Protocols {
		n += len(p.Name) + len(p.Metadata) + int(unsafe.Sizeof(assignor.Protocol{}))
	}
	if err := k.take(n); err != nil {
		return r, err
	}
	r.Protocols = make([]assignor.Protocol, len(req.Protocols))
	for i, p := range req.Protocols {
		r.Protocols[i] = assignor.Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)}
	}
	until(k, &r.Protocols[0], n)
	return r, nil
}

// orEmpty returns a nullable string whose null means the same as an empty string.
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
