package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// groupStates are the states of groups by the names that brokers use.
var groupStates = func() map[string]group.State {
	states := map[string]group.State{}
	for s := group.Dead; s.String() != "invalid"; s++ {
		states[s.String()] = s
	}
	return states
}()

// Groups describes all groups, sorted by id, without members and offsets.
func (s *session) Groups(ctx context.Context) ([]group.Info, error) {
	resp, err := readAny[*kmsg.ListGroupsResponse](ctx, s, "list groups", fromGroup, func() kmsg.Request { return kmsg.NewPtrListGroupsRequest() })
	if err == nil {
		err = codeError(fromGroup, resp.ErrorCode, nil)
	}
	if err != nil {
		return nil, err
	}
	all := make([]group.Info, 0, len(resp.Groups))
	for _, g := range resp.Groups {
		all = append(all, group.Info{ID: g.Group, Type: group.Type(strings.ToLower(g.GroupType)), State: groupStates[g.GroupState], ProtocolType: g.ProtocolType, Generation: -1})
	}
	slices.SortFunc(all, func(a, b group.Info) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Group describes a group with its members, offsets and lag. It returns group.ErrGroupNotFound if
// there is no such group. Generation and CommittedAt are unknown for a classic group: -1 and zero.
func (s *session) Group(ctx context.Context, id string) (info group.Info, err error) {
	err = s.coordinated(ctx, func() (err error) {
		if info, err = s.describeGroup(ctx, id); err == nil {
			info.Offsets, err = s.progress(ctx, id)
		}
		return err
	})
	return info, err
}

// coordinatorWait is the time for which the administration of a group waits for its coordinator. A
// new Kafka has none until it has created the topic of the groups.
const coordinatorWait = 10 * time.Second

// coordinated calls call, again and again while the group has no coordinator, or has moved to
// another one. Nothing was done then.
func (s *session) coordinated(ctx context.Context, call func() error) error {
	began := time.Now()
	for wait := groupInterval; ; wait = min(2*wait, time.Second) {
		err := call()
		if !errors.Is(err, group.ErrCoordinatorNotAvailable) && !errors.Is(err, group.ErrNotCoordinator) || time.Since(began) >= coordinatorWait {
			return err
		}
		if stopped := s.pause(ctx, wait); stopped != nil {
			return fmt.Errorf("%w: %w", stopped, err)
		}
	}
}

func (s *session) describeGroup(ctx context.Context, id string) (group.Info, error) {
	if s.c.Supports(ConsumerProtocol) == nil {
		info, err := s.describeConsumerGroup(ctx, id)
		if !errors.Is(err, group.ErrGroupNotFound) {
			return info, err
		}
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{id}
	resp, err := toGroup[*kmsg.DescribeGroupsResponse](ctx, s, "describe group", id, req)
	if err != nil {
		return group.Info{ID: id}, err
	}
	if len(resp.Groups) == 0 {
		return group.Info{ID: id}, noGroup(id)
	}
	g := resp.Groups[0]
	info := group.Info{ID: id, Type: group.Classic, State: groupStates[g.State], ProtocolType: g.ProtocolType, Protocol: g.Protocol, Generation: -1}
	if err := s.groupError(id, g.ErrorCode, g.ErrorMessage); err != nil {
		return group.Info{ID: id}, err
	}
	if info.State == group.Dead { // before Kafka 4.0 the response has no error
		return group.Info{ID: id}, noGroup(id)
	}
	for _, m := range g.Members {
		info.Members = append(info.Members, classicMember(m, info.State == group.Stable && g.ProtocolType == "consumer"))
	}
	return info, nil
}

func noGroup(id string) error { return fmt.Errorf("%w: %q", group.ErrGroupNotFound, id) }

// classicMember converts a member. decodes is true for the protocol of consumers.
func classicMember(m kmsg.DescribeGroupsResponseGroupMember, decodes bool) group.MemberInfo {
	out := group.MemberInfo{ID: m.MemberID, InstanceID: text(m.InstanceID), ClientID: m.ClientID, ClientHost: m.ClientHost}
	if !decodes {
		return out
	}
	out.SubscriptionData, out.AssignmentData = m.ProtocolMetadata, m.MemberAssignment
	var sub kmsg.ConsumerMemberMetadata
	if sub.ReadFrom(m.ProtocolMetadata) == nil {
		out.Topics = sub.Topics
	}
	var assigned kmsg.ConsumerMemberAssignment
	if assigned.ReadFrom(m.MemberAssignment) == nil {
		for _, t := range assigned.Topics {
			for _, p := range t.Partitions {
				out.Assignment = append(out.Assignment, record.TopicPartition{Topic: t.Topic, Partition: p})
			}
		}
	}
	return out
}

func (s *session) describeConsumerGroup(ctx context.Context, id string) (group.Info, error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{id}
	resp, err := toGroup[*kmsg.ConsumerGroupDescribeResponse](ctx, s, "describe group", id, req)
	if err != nil {
		return group.Info{ID: id}, err
	}
	if len(resp.Groups) == 0 {
		return group.Info{ID: id}, noGroup(id)
	}
	g := resp.Groups[0]
	if err := s.groupError(id, g.ErrorCode, g.ErrorMessage); err != nil {
		return group.Info{ID: id}, err
	}
	info := group.Info{ID: id, Type: group.Consumer, State: groupStates[g.State], ProtocolType: "consumer", Protocol: g.AssignorName, Generation: g.Epoch}
	for _, m := range g.Members {
		out := group.MemberInfo{ID: m.MemberID, InstanceID: text(m.InstanceID), ClientID: m.ClientID, ClientHost: m.ClientHost, Topics: m.SubscribedTopics}
		for _, t := range m.Assignment.TopicPartitions {
			for _, p := range t.Partitions {
				out.Assignment = append(out.Assignment, record.TopicPartition{Topic: t.Topic, Partition: p})
			}
		}
		info.Members = append(info.Members, out)
	}
	return info, nil
}

// progress returns the offsets of a group with the bounds of their partitions.
func (s *session) progress(ctx context.Context, id string) (map[record.TopicPartition]group.OffsetInfo, error) {
	committed, err := s.FetchOffsets(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	ends, starts := map[record.TopicPartition]partition.OffsetSpec{}, map[record.TopicPartition]partition.OffsetSpec{}
	for tp := range committed {
		ends[tp], starts[tp] = partition.Latest, partition.Earliest
	}
	end, err := s.knownOffsets(ctx, ends, describeWait)
	if err != nil {
		return nil, err
	}
	start, err := s.knownOffsets(ctx, starts, describeWait)
	if err != nil {
		return nil, err
	}
	infos := make(map[record.TopicPartition]group.OffsetInfo, len(committed))
	for tp, co := range committed {
		i := group.OffsetInfo{Committed: co, Start: start[tp].Offset, End: end[tp].Offset, Lag: -1, Err: cmp.Or(start[tp].Err, end[tp].Err)}
		switch {
		case errors.Is(i.Err, replication.ErrUnknownTopic):
			i.Start, i.End, i.Err = -1, -1, group.ErrUnknownTopicOrPartition
		case i.Err != nil:
			i.Start, i.End = -1, -1
		default:
			i.Lag = group.PartitionLag(co.Offset, i.Start, i.End)
		}
		infos[tp] = i
	}
	return infos, nil
}

// groupInterval is the time between the first two requests of WaitGroup.
const groupInterval = 50 * time.Millisecond

// WaitGroup waits until pred returns true for the group. It describes the group again, at first
// after 50 ms and then at most every second, and calls pred on the caller's goroutine. For a group
// that does not exist, pred gets an Info with state Dead.
func (s *session) WaitGroup(ctx context.Context, id string, pred func(group.Info) bool) (group.Info, error) {
	for wait := groupInterval; ; wait = min(2*wait, time.Second) {
		info, err := s.Group(ctx, id)
		if errors.Is(err, group.ErrGroupNotFound) {
			info, err = group.Info{ID: id}, nil
		}
		switch {
		case err == nil && pred(info):
			return info, nil
		case err != nil && !passes(err):
			return info, err
		}
		if err := s.pause(ctx, wait); err != nil {
			return info, err
		}
	}
}

// passes reports whether a repetition of a call may succeed.
func passes(err error) bool {
	var r interface{ Retriable() bool }
	if errors.As(err, &r) {
		return r.Retriable()
	}
	return errors.Is(err, group.ErrCoordinatorNotAvailable) || errors.Is(err, group.ErrNotCoordinator) || errors.Is(err, partition.ErrNotLeader)
}

// Lags returns the lag of every group, sorted by id. Drain is always group.DrainUnknown.
func (s *session) Lags(ctx context.Context) ([]group.GroupLag, error) {
	groups, err := s.Groups(ctx)
	if err != nil {
		return nil, err
	}
	var lags []group.GroupLag
	for _, g := range groups {
		if g.Type == group.Share || g.Type == group.Streams {
			continue
		}
		info, err := s.Group(ctx, g.ID)
		if errors.Is(err, group.ErrGroupNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		l := group.GroupLag{Group: g.ID, State: info.State, Members: len(info.Members), Lag: info.Lag(), Drain: group.DrainUnknown}
		for _, o := range info.Offsets {
			if o.Err != nil && !errors.Is(o.Err, group.ErrUnknownTopicOrPartition) {
				l.Unknown++
			}
		}
		if l.Lag == 0 && l.Unknown == 0 {
			l.Drain = 0
		}
		lags = append(lags, l)
	}
	return lags, nil
}

// ResetOffsets stores offsets for a group without members, and creates the group if it does not
// exist. It returns group.ErrNonEmptyGroup if the group has members.
func (s *session) ResetOffsets(ctx context.Context, id string, to record.Offsets) error {
	req := group.CommitRequest{Group: id, Generation: -1, Offsets: map[record.TopicPartition]record.Committed{}}
	for tp, offset := range to {
		if offset < 0 {
			return fmt.Errorf("%w: %d for %s-%d", group.ErrInvalidOffset, offset, tp.Topic, tp.Partition)
		}
		req.Offsets[tp] = record.Committed{Offset: offset, LeaderEpoch: -1}
	}
	var errs map[record.TopicPartition]error
	err := s.coordinated(ctx, func() (err error) {
		errs, err = s.CommitOffsets(ctx, req)
		return err
	})
	if errors.Is(err, group.ErrUnknownMember) || errors.Is(err, group.ErrIllegalGeneration) { // Kafka's code for a group with members
		return fmt.Errorf("%w: %w", group.ErrNonEmptyGroup, err)
	}
	return errors.Join(append(slices.Collect(maps.Values(errs)), err)...)
}

// DeleteGroup removes a group and its offsets. It returns group.ErrNonEmptyGroup if the group has
// members, and group.ErrGroupNotFound if it does not exist.
func (s *session) DeleteGroup(ctx context.Context, id string) error {
	return s.coordinated(ctx, func() error { return s.deleteGroup(ctx, id) })
}

func (s *session) deleteGroup(ctx context.Context, id string) error {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{id}
	resp, err := toGroup[*kmsg.DeleteGroupsResponse](ctx, s, "delete group", id, req)
	if err != nil {
		return err
	}
	for _, g := range resp.Groups {
		if err := s.groupError(id, g.ErrorCode, g.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// DeleteOffsets removes offsets of a group. The map has an entry for each partition:
// group.ErrGroupSubscribedToTopic, group.ErrUnknownTopicOrPartition or nil. The error is
// group.ErrGroupNotFound, or group.ErrNonEmptyGroup if the group has members that are not
// consumers.
func (s *session) DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (errs map[record.TopicPartition]error, err error) {
	err = s.coordinated(ctx, func() (err error) {
		errs, err = s.deleteOffsets(ctx, id, tps)
		return err
	})
	return errs, err
}

func (s *session) deleteOffsets(ctx context.Context, id string, tps []record.TopicPartition) (map[record.TopicPartition]error, error) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = id
	byTopic := map[string][]kmsg.OffsetDeleteRequestTopicPartition{}
	for _, tp := range tps {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], kmsg.OffsetDeleteRequestTopicPartition{Partition: tp.Partition})
	}
	for name, ps := range byTopic {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: ps})
	}
	resp, err := toGroup[*kmsg.OffsetDeleteResponse](ctx, s, "delete offsets of group", id, req)
	if err == nil {
		err = s.groupError(id, resp.ErrorCode, nil)
	}
	if err != nil {
		return nil, err
	}
	errs := map[record.TopicPartition]error{}
	for _, tp := range tps {
		errs[tp] = codeError(fromGroup, kerr.UnknownTopicOrPartition.Code, nil)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			errs[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = s.groupError(id, p.ErrorCode, nil)
		}
	}
	return errs, nil
}
