package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
)

// streamsGroupHeartbeat serves StreamsGroupHeartbeat (key 88, KIP-1071), version 0. It is the only
// request of a streams group member to its coordinator. Members choose their ids. Missing internal
// topics of the application are created, with the permissions of the member.
//
// There are three deviations from Kafka. A contradictory topology is rejected as invalid, with the
// reason; Kafka returns UNKNOWN_SERVER_ERROR. Topics are created before the response, which has
// the errors of their creation. Kafka creates them after the response, and returns the errors in
// the next one. A member with an endpoint can join while the source topics of its topology are
// missing; Kafka returns UNKNOWN_SERVER_ERROR.
func (c *call) streamsGroupHeartbeat(req *kmsg.StreamsGroupHeartbeatRequest) kmsg.Response {
	resp := streamsResponse(req)
	r, err := c.streamsHeartbeatRequest(req)
	if err == nil {
		names := []*string{&r.MemberID, &r.RackID, &r.ClientID, &r.ClientHost}
		if r.ProcessID != nil {
			names = append(names, r.ProcessID)
		}
		if r.Endpoint != nil {
			names = append(names, &r.Endpoint.Host)
		}
		err = c.groupCharge().member(r.MemberEpoch, &r.Group, names...)
	}
	if err == nil {
		err = c.groupCharge().streams(&r)
	}
	var answer group.StreamsHeartbeatResponse
	if err == nil {
		answer, err = c.groups.StreamsHeartbeat(c.ctx, r)
	}
	if err != nil {
		err = c.heartbeatSays(err, "Streams", req.Group, req.MemberID, nil, req.MemberEpoch)
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	resp.MemberID, resp.MemberEpoch = answer.MemberID, answer.MemberEpoch
	resp.HeartbeatIntervalMillis = int32(answer.HeartbeatInterval.Milliseconds())
	if a := answer.Assignment; a != nil {
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = taskIDs(a.Active), taskIDs(a.Standby), taskIDs(a.Warmup)
	}
	resp.EndpointInformationEpoch = answer.EndpointEpoch
	resp.PartitionsByUserEndpoint = queryable(answer.Queryable)
	for _, s := range answer.Statuses {
		if s.Code == group.MissingInternalTopics {
			s.Detail += c.createInternal(answer)
		}
		resp.Status = append(resp.Status, kmsg.StreamsGroupHeartbeatResponseStatus{StatusCode: int8(s.Code), StatusDetail: s.Detail})
	}
	return resp
}

// streamsResponse returns an empty response. Its list of statuses is never null.
func streamsResponse(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	return resp
}

func taskIDs(all []offsets.StreamsTasks) []kmsg.TaskIDs {
	out := make([]kmsg.TaskIDs, 0, len(all))
	for _, t := range all {
		out = append(out, kmsg.TaskIDs{SubtopologyID: t.Subtopology, Partitions: t.Partitions})
	}
	return out
}

func queryable(all []group.StreamsQueryable) (out []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint) {
	if all != nil {
		out = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
	}
	for _, q := range all {
		r := kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{UserEndpoint: kmsg.Endpoint{Host: q.Endpoint.Host, Port: q.Endpoint.Port}}
		for _, t := range q.Active {
			r.ActivePartitions = append(r.ActivePartitions, kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition{Topic: t.Topic, Partitions: t.Partitions})
		}
		for _, t := range q.Standby {
			r.StandbyPartitions = append(r.StandbyPartitions, kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition{Topic: t.Topic, Partitions: t.Partitions})
		}
		out = append(out, r)
	}
	return out
}
