package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
)

// describeShareGroupOffsets serves DescribeShareGroupOffsets (key 90, KIP-932), versions 0 and 1.
// It returns the start offsets of a share group: of the requested partitions, or of all that have
// a state. Version 1 adds the lag, the number of records from there on that are not done.
//
// Deviation from Kafka: missing partitions and groups are answered like partitions without a
// state. Kafka does not answer such a request.
func (c *call) describeShareGroupOffsets(req *kmsg.DescribeShareGroupOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeShareGroupOffsetsResponse)
	for _, g := range each(c, req.Groups) {
		rg := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
		rg.GroupID = g.GroupID
		begun, err := c.begunShares(g.GroupID)
		if err != nil {
			rg.ErrorCode, rg.ErrorMessage = c.errorCode(err), errorMessage(err)
			resp.Groups = append(resp.Groups, rg)
			continue
		}
		topics := begun
		if g.Topics != nil {
			topics = nil
			for _, t := range each(c, g.Topics) {
				id, _ := c.s.cluster.TopicID(t.Topic)
				topics = append(topics, offsets.ShareStatesTopic{TopicID: id, Topic: t.Topic, Partitions: t.Partitions})
			}
		}
		for _, t := range each(c, topics) {
			rt := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range each(c, t.Partitions) {
				rt.Partitions = append(rt.Partitions, c.shareOffset(g.GroupID, t, p))
			}
			rg.Topics = append(rg.Topics, rt)
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

// begunShares returns the partitions in which a share group has a state; none if the group does
// not exist.
func (c *call) begunShares(id string) ([]offsets.ShareStatesTopic, error) {
	if id == "" {
		return nil, group.ErrInvalidGroupID
	}
	begun, err := c.groups.ShareStatesOf(c.ctx, id)
	if errors.Is(err, group.ErrGroupNotFound) {
		if _, other := c.groups.Describe(c.ctx, id); errors.Is(other, group.ErrGroupNotFound) {
			return nil, nil
		}
	}
	return begun, err
}

// shareOffset returns the start offset and lag of a group in a partition.
func (c *call) shareOffset(groupID string, t offsets.ShareStatesTopic, p int32) kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition {
	rp := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
	rp.Partition, rp.StartOffset, rp.Lag = p, -1, -1
	shares, err := c.s.cluster.Shares()
	if err == nil && c.hasPartition(t.TopicID, p) {
		tp := record.TopicPartition{Topic: t.Topic, Partition: p}
		_, rp.LeaderEpoch = c.leaderOf(tp)
		var state *share.State
		if state, err = summaryOrNone(shares.StateSummary(c.ctx, share.Key{Group: groupID, TopicID: t.TopicID, Partition: p})); err == nil {
			rp.StartOffset = state.Start
			rp.Lag = c.shareLag(tp, state)
		}
	}
	rp.ErrorCode, rp.ErrorMessage = c.errorCode(err), errorMessage(err)
	return rp
}

// summaryOrNone returns a state without a start offset for a share-partition that is not
// initialized.
func summaryOrNone(state *share.State, err error) (*share.State, error) {
	if errors.Is(err, share.ErrNotInitialized) {
		return &share.State{Start: -1, Complete: -1}, nil
	}
	return state, err
}

// shareLag returns the number of records of a partition that are not done; -1 if unknown.
func (c *call) shareLag(tp record.TopicPartition, state *share.State) int64 {
	found, err := c.s.cluster.ListOffsets(c.ctx, map[record.TopicPartition]partition.OffsetSpec{tp: partition.Latest}, partition.ReadUncommitted)
	if err != nil || found[tp].Err != nil || state.Start < 0 {
		return -1
	}
	return max(-1, found[tp].Offset-state.Start-int64(max(state.Complete, 0)))
}

// alterShareGroupOffsets serves AlterShareGroupOffsets (key 91, KIP-932), version 0. It sets the
// start offsets of a share group without members, which it creates if it does not exist.
func (c *call) alterShareGroupOffsets(req *kmsg.AlterShareGroupOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterShareGroupOffsetsResponse)
	to := map[group.SharePartition]int64{}
	errs := map[group.SharePartition]error{}
	at := func(name string, p int32) group.SharePartition {
		id, _ := c.s.cluster.TopicID(name)
		return group.SharePartition{TopicID: id, Topic: name, Partition: p}
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			switch sp := at(t.Topic, p.Partition); {
			case !c.hasPartition(sp.TopicID, p.Partition):
				errs[sp] = refuse(UnknownTopicOrPartition, textUnknownTopic)
			case p.StartOffset < 0:
				errs[sp] = refuse(InvalidRequest, "The start offset is negative.")
			default:
				to[sp] = p.StartOffset
			}
		}
	}
	done, err := c.groups.ResetShareOffsets(c.bounded(), req.GroupID, to)
	if err != nil {
		err = says(err, group.ErrGroupNotFound, fmt.Sprintf("Group %s is not a share group.", req.GroupID))
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	for _, t := range req.Topics {
		rt := kmsg.NewAlterShareGroupOffsetsResponseTopic()
		rt.Topic = t.Topic
		rt.TopicID, _ = c.s.cluster.TopicID(t.Topic)
		for _, p := range t.Partitions {
			sp := at(t.Topic, p.Partition)
			err := errors.Join(errs[sp], done[sp])
			rt.Partitions = append(rt.Partitions, kmsg.AlterShareGroupOffsetsResponseTopicPartition{Partition: p.Partition, ErrorCode: c.errorCode(err), ErrorMessage: errorMessage(err)})
		}
		if len(rt.Partitions) > 0 || rt.TopicID != [16]byte{} {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

// deleteShareGroupOffsets serves DeleteShareGroupOffsets (key 92, KIP-932), version 0. It deletes
// the states of topics of a share group without members.
func (c *call) deleteShareGroupOffsets(req *kmsg.DeleteShareGroupOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteShareGroupOffsetsResponse)
	if len(req.Topics) == 0 { // the group is checked all the same
		_, err := c.forgetShares(req.GroupID, "")
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
	}
	for _, t := range req.Topics {
		rt := kmsg.NewDeleteShareGroupOffsetsResponseTopic()
		rt.Topic = t.Topic
		refused, err := c.forgetShares(req.GroupID, t.Topic)
		if err != nil { // an error of the group
			resp.Topics, resp.ErrorCode, resp.ErrorMessage = nil, c.errorCode(err), errorMessage(err)
			return resp
		}
		if refused == nil {
			rt.TopicID, _ = c.s.cluster.TopicID(t.Topic)
		}
		rt.ErrorCode, rt.ErrorMessage = c.errorCode(refused), errorMessage(refused)
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// forgetShares deletes the state of a topic of a share group. refused is an error of the topic,
// err an error of the group.
func (c *call) forgetShares(id, name string) (refused, err error) {
	topicID, known := c.s.cluster.TopicID(name)
	err = c.groups.DeleteShareOffsets(c.ctx, id, topicID)
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, group.ErrUnknownTopicOrPartition) && known:
		return refuse(UnknownTopicOrPartition, "There is no offset information to delete."), nil
	case errors.Is(err, group.ErrUnknownTopicOrPartition):
		return refuse(UnknownTopicOrPartition, textUnknownTopic), nil
	}
	if _, other := c.groups.Describe(c.ctx, id); errors.Is(err, group.ErrGroupNotFound) && !errors.Is(other, group.ErrGroupNotFound) {
		return nil, refuse(GroupIDNotFound, fmt.Sprintf("Group %s is not a share group.", id))
	}
	return nil, groupSays(err, id)
}
