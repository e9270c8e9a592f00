package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
)

// shareGroupHeartbeat serves ShareGroupHeartbeat (key 76, KIP-932), version 1. It is the only
// request of a share group member to its coordinator. Members choose their ids.
//
// Deviation from Kafka: a joining member has its partitions in the first response. Their states
// are initialized before that response; Kafka initializes them before the next heartbeat.
func (c *call) shareGroupHeartbeat(req *kmsg.ShareGroupHeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
	r := group.ShareHeartbeatRequest{Group: req.GroupID, MemberID: req.MemberID, MemberEpoch: req.MemberEpoch, ClientID: c.clientID, ClientHost: c.clientHost,
		SubscribedTopics: req.SubscribedTopicNames}
	var err error
	switch {
	case blank(req.GroupID):
		err = refuse(InvalidRequest, "GroupId can't be empty.")
	case blank(req.MemberID):
		err = refuse(InvalidRequest, "MemberId can't be empty.")
	case len(req.MemberID) > maxShareMemberID:
		err = refuse(InvalidRequest, "MemberId is too long.")
	case req.RackID == nil:
	case blank(*req.RackID):
		err = refuse(InvalidRequest, "RackId can't be empty.")
	default:
		r.RackID = *req.RackID
	}
	var answer group.ShareHeartbeatResponse
	if err == nil {
		err = c.groupCharge().member(r.MemberEpoch, &r.Group, &r.MemberID, &r.RackID, &r.ClientID, &r.ClientHost)
	}
	if err == nil {
		r.SubscribedTopics, err = c.groupCharge().names(r.SubscribedTopics)
	}
	if err == nil {
		answer, err = c.groups.ShareHeartbeat(c.bounded(), r)
	}
	if err != nil {
		err = c.heartbeatSays(err, "Share", req.GroupID, req.MemberID, nil, req.MemberEpoch)
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	resp.MemberID, resp.MemberEpoch = &answer.MemberID, answer.MemberEpoch
	resp.HeartbeatIntervalMillis = int32(answer.HeartbeatInterval.Milliseconds())
	if answer.Assignment != nil {
		resp.Assignment = &kmsg.ShareGroupHeartbeatResponseAssignment{}
		for _, t := range answer.Assignment {
			resp.Assignment.TopicPartitions = append(resp.Assignment.TopicPartitions, kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{TopicID: t.TopicID, Partitions: t.Partitions})
		}
	}
	return resp
}

// maxShareMemberID is the maximum length of a member id of a share group: the length of a UUID
// with dashes. Kafka: KafkaApis.
const maxShareMemberID = 36
