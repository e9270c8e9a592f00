package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/share"
)

// InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState and
// ReadShareGroupStateSummary (keys 83 to 87, KIP-932) are requests of brokers to the coordinator
// of a share-partition's state. They need ClusterAction. The brokers of a cluster do not send them
// to each other. Version 1 of WriteShareGroupState and of the summary adds the number of records
// from the start offset on whose delivery is complete (KIP-1226).
//
// Deviation from Kafka: written batches must be sorted by offset and must not overlap. As in
// Kafka, only epochs fence a client that writes the state of a share-partition which a broker of
// the cluster uses.

// shareState returns the key and coordinator of one share-partition. It returns an error if
// another broker is the coordinator.
func (c *call) shareState(groupID string, id [16]byte, p int32) (*share.Coordinator, share.Key, error) {
	key := share.Key{Group: groupID, TopicID: id, Partition: p}
	if p < 0 {
		return nil, key, refuse(InvalidRequest, "The partition id cannot be a negative number.")
	}
	shares, err := c.s.cluster.Shares()
	if err != nil {
		return nil, key, err
	}
	broker, err := shares.FindCoordinator(c.ctx, key)
	if err == nil && broker != c.broker {
		err = group.ErrNotCoordinator
	}
	return shares, key, err
}

// knownShareState is shareState for a partition that must exist.
func (c *call) knownShareState(groupID string, id [16]byte, p int32) (*share.Coordinator, share.Key, error) {
	if p >= 0 && !c.hasPartition(id, p) {
		return nil, share.Key{}, refuse(UnknownTopicOrPartition, textUnknownTopic)
	}
	return c.shareState(groupID, id, p)
}

func (c *call) hasPartition(id [16]byte, p int32) bool {
	name, ok := c.s.cluster.TopicName(id)
	if ok {
		_, err := c.partitionOf(name, p)
		ok = err == nil
	}
	return ok
}

// initializeShareGroupState creates states. Key 83, version 0.
func (c *call) initializeShareGroupState(req *kmsg.InitializeShareGroupStateRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.InitializeShareGroupStateResponse)
	if req.GroupID == "" {
		return resp
	}
	for _, t := range each(c, req.Topics) {
		rt := kmsg.InitializeShareGroupStateResponseTopic{TopicID: t.TopicID}
		for _, p := range each(c, t.Partitions) {
			shares, key, err := c.knownShareState(req.GroupID, t.TopicID, p.Partition)
			if err == nil {
				err = shares.InitializeState(c.bounded(), key, p.StateEpoch, p.StartOffset)
			}
			rt.Partitions = append(rt.Partitions, kmsg.InitializeShareGroupStateResponseTopicPartition{Partition: p.Partition, ErrorCode: c.errorCode(err), ErrorMessage: errorMessage(err)})
		}
		if len(rt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

// readShareGroupState returns states to the leaders of partitions. Key 84, version 0.
func (c *call) readShareGroupState(req *kmsg.ReadShareGroupStateRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ReadShareGroupStateResponse)
	if req.GroupID == "" {
		return resp
	}
	for _, t := range each(c, req.Topics) {
		rt := kmsg.ReadShareGroupStateResponseTopic{TopicID: t.TopicID}
		for _, p := range each(c, t.Partitions) {
			rp := kmsg.ReadShareGroupStateResponseTopicPartition{Partition: p.Partition}
			shares, key, err := c.shareState(req.GroupID, t.TopicID, p.Partition)
			var state *share.State
			if err == nil {
				state, err = shares.ReadState(c.ctx, key, p.LeaderEpoch)
				err = says(err, share.ErrNotInitialized, "Read operation on uninitialized share partition not allowed.")
			}
			if err == nil {
				rp.StateEpoch, rp.StartOffset = state.StateEpoch, state.Start
				for _, b := range state.Batches {
					rp.StateBatches = append(rp.StateBatches, kmsg.ReadShareGroupStateResponseTopicPartitionStateBatch{FirstOffset: b.First, LastOffset: b.Last, DeliveryState: b.State, DeliveryCount: b.Count})
				}
			}
			rp.ErrorCode, rp.ErrorMessage = c.errorCode(err), errorMessage(err)
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(rt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

// writeShareGroupState changes states. Key 85, versions 0 and 1.
func (c *call) writeShareGroupState(req *kmsg.WriteShareGroupStateRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.WriteShareGroupStateResponse)
	if req.GroupID == "" {
		return resp
	}
	for _, t := range each(c, req.Topics) {
		rt := kmsg.WriteShareGroupStateResponseTopic{TopicID: t.TopicID}
		for _, p := range each(c, t.Partitions) {
			w := share.StateChange{LeaderEpoch: p.LeaderEpoch, StateEpoch: p.StateEpoch, Start: p.StartOffset, Complete: p.DeliveryCompleteCount}
			for _, b := range p.StateBatches {
				w.Batches = append(w.Batches, sharelog.Batch{First: b.FirstOffset, Last: b.LastOffset, State: b.DeliveryState, Count: b.DeliveryCount})
			}
			shares, key, err := c.shareState(req.GroupID, t.TopicID, p.Partition)
			if err == nil && !inOrder(w.Batches) {
				if _, err = shares.StateSummary(c.ctx, key); err == nil {
					err = refuse(InvalidRequest, "The batches are not by offset, or of no known state.")
				}
			} else if err == nil {
				err = shares.WriteState(c.ctx, key, w)
			}
			err = says(err, share.ErrNotInitialized, "Write operation on uninitialized share partition not allowed.")
			rt.Partitions = append(rt.Partitions, kmsg.WriteShareGroupStateResponseTopicPartition{Partition: p.Partition, ErrorCode: c.errorCode(err), ErrorMessage: errorMessage(err)})
		}
		if len(rt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

// inOrder reports whether batches can be stored: sorted, without overlap, and with valid states
// and counts.
func inOrder(batches []sharelog.Batch) bool {
	last := int64(-1)
	return !slices.ContainsFunc(batches, func(b sharelog.Batch) bool {
		bad := b.First <= last || b.Last < b.First || b.Count < 0 || b.State != 0 && b.State != 2 && b.State != 4
		last = b.Last
		return bad
	})
}

// deleteShareGroupState deletes states. Key 86, version 0.
func (c *call) deleteShareGroupState(req *kmsg.DeleteShareGroupStateRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteShareGroupStateResponse)
	if req.GroupID == "" {
		return resp
	}
	for _, t := range each(c, req.Topics) {
		rt := kmsg.DeleteShareGroupStateResponseTopic{TopicID: t.TopicID}
		for _, p := range each(c, t.Partitions) {
			shares, key, err := c.knownShareState(req.GroupID, t.TopicID, p.Partition)
			if err == nil {
				err = shares.DeleteState(c.ctx, key)
			}
			rt.Partitions = append(rt.Partitions, kmsg.DeleteShareGroupStateResponseTopicPartition{Partition: p.Partition, ErrorCode: c.errorCode(err), ErrorMessage: errorMessage(err)})
		}
		if len(rt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

// readShareGroupStateSummary returns summaries of states. Unlike ReadShareGroupState it does not
// fence earlier leader epochs. A share-partition without a state is not an error. Key 87, versions
// 0 and 1.
func (c *call) readShareGroupStateSummary(req *kmsg.ReadShareGroupStateSummaryRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ReadShareGroupStateSummaryResponse)
	if req.GroupID == "" {
		return resp
	}
	for _, t := range each(c, req.Topics) {
		rt := kmsg.ReadShareGroupStateSummaryResponseTopic{TopicID: t.TopicID}
		for _, p := range each(c, t.Partitions) {
			rp := kmsg.NewReadShareGroupStateSummaryResponseTopicPartition()
			rp.Partition = p.Partition
			shares, key, err := c.knownShareState(req.GroupID, t.TopicID, p.Partition)
			state := &share.State{Start: -1, Complete: -1}
			if err == nil {
				state, err = summaryOrNone(shares.StateSummary(c.ctx, key))
			}
			if err == nil {
				rp.StateEpoch, rp.LeaderEpoch, rp.StartOffset, rp.DeliveryCompleteCount = state.StateEpoch, state.LeaderEpoch, state.Start, state.Complete
			}
			rp.ErrorCode, rp.ErrorMessage = c.errorCode(err), errorMessage(err)
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(rt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}
