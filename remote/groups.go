package remote

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote/internal/link"
)

// movedCode reports whether a code means that another broker is, or will be, the coordinator.
func movedCode(code int16) bool {
	return code == kerr.NotCoordinator.Code || code == kerr.CoordinatorNotAvailable.Code
}

// Join implements consumer.GroupBackend. It blocks until the group has rebalanced.
func (s *session) Join(ctx context.Context, r group.JoinRequest) (group.JoinResponse, error) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType, req.Reason = r.Group, r.MemberID, optional(r.InstanceID), r.ProtocolType, optional(r.Reason)
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = millis(r.SessionTimeout), millis(r.RebalanceTimeout)
	if r.RebalanceTimeout == 0 {
		req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	}
	for _, p := range r.Protocols {
		one := kmsg.NewJoinGroupRequestProtocol()
		one.Name, one.Metadata = p.Name, p.Metadata
		req.Protocols = append(req.Protocols, one)
	}
	resp, err := toGroup[*kmsg.JoinGroupResponse](ctx, s, "join group", r.Group, req)
	switch {
	case err != nil:
		return group.JoinResponse{}, err
	case resp.ErrorCode == kerr.MemberIDRequired.Code:
		return group.JoinResponse{}, &group.MemberIDRequiredError{MemberID: resp.MemberID}
	case resp.ErrorCode != 0:
		return group.JoinResponse{}, s.groupError(r.Group, resp.ErrorCode, nil)
	}
	out := group.JoinResponse{
		Generation: resp.Generation, MemberID: resp.MemberID, Leader: resp.LeaderID, ProtocolType: text(resp.ProtocolType), ProtocolName: text(resp.Protocol),
		SkipAssignment: resp.SkipAssignment,
	}
	for _, m := range resp.Members {
		out.Members = append(out.Members, assignor.JoinMember{MemberID: m.MemberID, InstanceID: text(m.InstanceID), Metadata: m.ProtocolMetadata})
	}
	return out, nil
}

// Sync implements consumer.GroupBackend. It blocks until the leader has assigned the partitions.
func (s *session) Sync(ctx context.Context, r group.SyncRequest) (group.SyncResponse, error) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = r.Group, r.MemberID, optional(r.InstanceID), r.Generation
	req.ProtocolType, req.Protocol = optional(r.ProtocolType), optional(r.ProtocolName)
	for id, data := range r.Assignments {
		one := kmsg.NewSyncGroupRequestGroupAssignment()
		one.MemberID, one.MemberAssignment = id, data
		req.GroupAssignment = append(req.GroupAssignment, one)
	}
	resp, err := toGroup[*kmsg.SyncGroupResponse](ctx, s, "sync group", r.Group, req)
	if err == nil {
		err = s.groupError(r.Group, resp.ErrorCode, nil)
	}
	if err != nil {
		return group.SyncResponse{}, err
	}
	return group.SyncResponse{ProtocolType: text(resp.ProtocolType), ProtocolName: text(resp.Protocol), Assignment: resp.MemberAssignment}, nil
}

// Heartbeat implements consumer.GroupBackend.
func (s *session) Heartbeat(ctx context.Context, r group.HeartbeatRequest) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = r.Group, r.MemberID, optional(r.InstanceID), r.Generation
	resp, err := toGroup[*kmsg.HeartbeatResponse](ctx, s, "heartbeat in group", r.Group, req)
	if err != nil {
		return err
	}
	return s.groupError(r.Group, resp.ErrorCode, nil)
}

// Leave implements consumer.GroupBackend.
func (s *session) Leave(ctx context.Context, r group.LeaveRequest) ([]error, error) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = r.Group
	for _, m := range r.Members {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID, one.InstanceID, one.Reason = m.MemberID, optional(m.InstanceID), optional(m.Reason)
		req.Members, req.MemberID = append(req.Members, one), m.MemberID // the latter is for version 2 and below
	}
	resp, err := toGroup[*kmsg.LeaveGroupResponse](ctx, s, "leave group", r.Group, req)
	if err == nil {
		err = s.groupError(r.Group, resp.ErrorCode, nil)
	}
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(r.Members))
	for i := range min(len(errs), len(resp.Members)) {
		errs[i] = s.groupError(r.Group, resp.Members[i].ErrorCode, nil)
	}
	return errs, nil
}

// ConsumerHeartbeat implements consumer.ConsumerGroupBackend.
func (s *session) ConsumerHeartbeat(ctx context.Context, r group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID, req.RackID = r.Group, r.MemberID, r.MemberEpoch, optional(r.InstanceID), optional(r.RackID)
	req.RebalanceTimeoutMillis, req.ServerAssignor = -1, optional(r.Assignor)
	if r.RebalanceTimeout >= 0 {
		req.RebalanceTimeoutMillis = millis(r.RebalanceTimeout)
	}
	req.SubscribedTopicNames, req.SubscribedTopicRegex = r.SubscribedTopics, r.SubscribedRegex
	if r.Owned != nil {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, t := range r.Owned {
			one := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			one.TopicID, one.Partitions = t.TopicID, t.Partitions
			req.Topics = append(req.Topics, one)
		}
	}
	resp, err := toGroup[*kmsg.ConsumerGroupHeartbeatResponse](ctx, s, "heartbeat in group", r.Group, req)
	if err == nil {
		err = s.groupError(r.Group, resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return group.ConsumerHeartbeatResponse{}, err
	}
	out := group.ConsumerHeartbeatResponse{MemberID: text(resp.MemberID), MemberEpoch: resp.MemberEpoch, HeartbeatInterval: time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond}
	if resp.Assignment != nil {
		out.Assignment = []offsets.TopicIDPartitions{}
		for _, t := range resp.Assignment.Topics {
			out.Assignment = append(out.Assignment, offsets.TopicIDPartitions{TopicID: t.TopicID, Partitions: t.Partitions})
		}
	}
	return out, nil
}

// NotifyRebalanced implements consumer.Notifier. It never notifies: a member learns of a rebalance
// with its next heartbeat.
func (s *session) NotifyRebalanced(string, chan<- struct{}) (stop func()) { return func() {} }

const (
	// namesOnlyCommit and namesOnlyOffsetFetch are the last versions of OffsetCommit and
	// OffsetFetch that name topics instead of their ids.
	namesOnlyCommit      = 9
	namesOnlyOffsetFetch = 9
)

// CommitOffsets implements consumer.GroupBackend. Offsets of a topic in TopicIDs are rejected with
// group.ErrUnknownTopicOrPartition if the topic was deleted and created again, if the brokers
// support that (Kafka 4.1).
func (s *session) CommitOffsets(ctx context.Context, r group.CommitRequest) (map[record.TopicPartition]error, error) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation, req.RetentionTimeMillis = r.Group, r.MemberID, optional(r.InstanceID), r.Generation, -1
	if r.Retention > 0 {
		req.RetentionTimeMillis = r.Retention.Milliseconds()
	}
	byID := true
	topics := index[string]{}
	for tp, co := range r.Offsets {
		i, first := topics.of(tp.Topic)
		if first {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = tp.Topic, r.TopicIDs[tp.Topic]
			byID = byID && t.TopicID != [16]byte{}
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = tp.Partition, co.Offset, co.LeaderEpoch, &co.Metadata
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	var send kmsg.Request = req
	if !byID {
		send = link.AtMost(namesOnlyCommit, req)
	}
	resp, err := toGroup[*kmsg.OffsetCommitResponse](ctx, s, "commit offsets of group", r.Group, send)
	if err != nil {
		return nil, err
	}
	codes := map[record.TopicPartition]int16{}
	for _, t := range resp.Topics {
		name := t.Topic
		for _, asked := range req.Topics {
			if name == "" && asked.TopicID == t.TopicID {
				name = asked.Topic
			}
		}
		for _, p := range t.Partitions {
			codes[record.TopicPartition{Topic: name, Partition: p.Partition}] = p.ErrorCode
		}
	}
	return s.commitErrors(r.Group, r.Offsets, codes)
}

// partitionCodes are the codes of a commit that concern a partition. All others concern the
// request, although a response has them for each partition.
var partitionCodes = []int16{
	0, kerr.UnknownTopicOrPartition.Code, kerr.OffsetMetadataTooLarge.Code, kerr.InvalidCommitOffsetSize.Code, kerr.TopicAuthorizationFailed.Code,
	kerr.UnknownTopicID.Code, kerr.InconsistentTopicID.Code,
}

// commitErrors returns the error of each partition of a commit, or the error of the whole commit.
func (s *session) commitErrors(id string, committed map[record.TopicPartition]record.Committed, codes map[record.TopicPartition]int16) (map[record.TopicPartition]error, error) {
	errs := make(map[record.TopicPartition]error, len(committed))
	for tp := range committed {
		code, ok := codes[tp]
		switch {
		case !ok:
			code = kerr.UnknownTopicOrPartition.Code
		case !slices.Contains(partitionCodes, code):
			return nil, s.groupError(id, code, nil)
		case code == kerr.UnknownTopicID.Code:
			code = kerr.UnknownTopicOrPartition.Code
		}
		errs[tp] = s.groupError(id, code, nil)
	}
	return errs, nil
}

// FetchOffsets implements consumer.GroupBackend. nil partitions: all that have an offset.
func (s *session) FetchOffsets(ctx context.Context, id string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, error) {
	committed, _, err := s.fetchOffsets(ctx, id, tps, false)
	return committed, err
}

// FetchStableOffsets implements consumer.GroupBackend.
func (s *session) FetchStableOffsets(ctx context.Context, id string, tps []record.TopicPartition) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error) {
	return s.fetchOffsets(ctx, id, tps, true)
}

func (s *session) fetchOffsets(ctx context.Context, id string, tps []record.TopicPartition, stable bool) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error) {
	if tps != nil && len(tps) == 0 {
		return nil, nil, nil
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = id, stable
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group, one.MemberEpoch = id, -1
	byTopic := map[string][]int32{}
	for _, tp := range tps {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
	}
	for name, ps := range byTopic {
		old, t := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		old.Topic, old.Partitions, t.Topic, t.Partitions = name, ps, name, ps
		req.Topics, one.Topics = append(req.Topics, old), append(one.Topics, t)
	}
	req.Groups = append(req.Groups, one)
	resp, err := toGroup[*kmsg.OffsetFetchResponse](ctx, s, "offsets of group", id, link.AtMost(namesOnlyOffsetFetch, req))
	if err != nil {
		return nil, nil, err
	}
	code := resp.ErrorCode
	committed, unstable = map[record.TopicPartition]record.Committed{}, map[record.TopicPartition]error{}
	var failed error
	add := func(topic string, p int32, offset int64, epoch int32, metadata *string, code int16) {
		tp := record.TopicPartition{Topic: topic, Partition: p}
		switch {
		case code == kerr.UnstableOffsetCommit.Code:
			unstable[tp] = group.ErrUnstableOffsetCommit
		case code != 0 && code != kerr.UnknownTopicOrPartition.Code:
			failed = s.groupError(id, code, nil)
		case code == 0 && (offset >= 0 || tps != nil):
			committed[tp] = record.Committed{Offset: offset, LeaderEpoch: epoch, Metadata: text(metadata)}
		}
	}
	for _, g := range resp.Groups {
		code = g.ErrorCode
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
			}
		}
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			add(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
		}
	}
	if code != 0 {
		failed = s.groupError(id, code, nil)
	}
	if failed != nil {
		return nil, nil, failed
	}
	return committed, unstable, nil
}
