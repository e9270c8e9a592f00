package kafka

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
)

// consumerGroupHeartbeat serves ConsumerGroupHeartbeat (key 68, KIP-848), versions 0 and 1. With
// it a member of the consumer protocol joins, leaves, subscribes and reports its partitions.
// Version 1 adds the regular expression of a subscription, and requires that members create their
// own ids. In version 0 a member that joins without an id receives one.
//
// Deviations: a regular expression that takes less than half a second is resolved during the
// request. So a member that joins by it has its partitions in the first response. Kafka resolves
// all in the background. A very large expression is rejected as invalid.
func (c *call) consumerGroupHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	r, err := c.consumerHeartbeatRequest(req)
	var answer group.ConsumerHeartbeatResponse
	if err == nil {
		names := []*string{&r.MemberID, &r.InstanceID, &r.RackID, &r.ClientID, &r.ClientHost}
		if r.SubscribedRegex != nil {
			names = append(names, r.SubscribedRegex)
		}
		err = c.groupCharge().member(r.MemberEpoch, &r.Group, names...)
	}
	if err == nil {
		r.SubscribedTopics, err = c.groupCharge().names(r.SubscribedTopics)
	}
	if err == nil {
		answer, err = c.groups.ConsumerHeartbeat(c.ctx, r)
	}
	if err != nil {
		err = c.heartbeatSays(err, "Consumer", req.Group, req.MemberID, req.InstanceID, req.MemberEpoch)
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	resp.MemberID, resp.MemberEpoch = &answer.MemberID, answer.MemberEpoch
	resp.HeartbeatIntervalMillis = int32(answer.HeartbeatInterval.Milliseconds())
	if answer.Assignment != nil {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		for _, t := range answer.Assignment {
			resp.Assignment.Topics = append(resp.Assignment.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: t.TopicID, Partitions: t.Partitions})
		}
	}
	return resp
}

// consumerHeartbeatRequest translates req. The result has no null strings, so it rejects strings
// that are empty but not null. The result does not alias the request's bytes.
func (c *call) consumerHeartbeatRequest(req *kmsg.ConsumerGroupHeartbeatRequest) (group.ConsumerHeartbeatRequest, error) {
	r := group.ConsumerHeartbeatRequest{
		Group: req.Group, MemberID: req.MemberID, MemberEpoch: req.MemberEpoch, InstanceID: orEmpty(req.InstanceID), RackID: orEmpty(req.RackID),
		ClientID: c.clientID, ClientHost: c.clientHost, SubscribedTopics: req.SubscribedTopicNames, SubscribedRegex: req.SubscribedTopicRegex, Assignor: orEmpty(req.ServerAssignor),
		RebalanceTimeout: -1, Describes: c.describesToPresent(), Owner: c.conn.ownedBy,
	}
	if req.RebalanceTimeoutMillis != -1 { // other negative timeouts expire at once, as in Kafka
		r.RebalanceTimeout = max(0, time.Duration(req.RebalanceTimeoutMillis)*time.Millisecond)
	}
	if req.Topics != nil {
		r.Owned = make([]offsets.TopicIDPartitions, 0, len(req.Topics))
	}
	for _, t := range req.Topics {
		r.Owned = append(r.Owned, offsets.TopicIDPartitions{TopicID: t.TopicID, Partitions: t.Partitions})
	}
	switch {
	case blank(req.MemberID) && (c.version >= 1 || req.MemberEpoch > 0 || req.MemberEpoch == -1):
		return r, refuse(InvalidRequest, "MemberId can't be empty.")
	case blank(req.Group):
		return r, refuse(InvalidRequest, "GroupId can't be empty.")
	case req.InstanceID != nil && blank(*req.InstanceID):
		return r, refuse(InvalidRequest, "InstanceId can't be empty.")
	case req.RackID != nil && blank(*req.RackID):
		return r, refuse(InvalidRequest, "RackId can't be empty.")
	case req.ServerAssignor != nil && *req.ServerAssignor == "":
		return r, refuse(UnsupportedAssignor, "ServerAssignor  is not supported.")
	}
	return r, nil
}

// describesToPresent is describes for a request on its own goroutine. If transport.Conn.Overdue
// reports true, the function returns false, and the context of the request has ended. That is so
// when the client has closed its connection, or the server has been shutting down for a second.
func (c *call) describesToPresent() func(name string) bool {
	describes, transport := c.describes(), c.conn.transport
	return func(name string) bool {
		return !transport.Overdue() && (describes == nil || describes(name))
	}
}

// blank reports whether Kafka treats a name as empty. Kafka trims spaces and control characters,
// as Java does. Kafka: GroupCoordinatorService.throwIfEmptyString.
func blank(name string) bool {
	return strings.TrimFunc(name, func(c rune) bool { return c <= ' ' }) == ""
}
