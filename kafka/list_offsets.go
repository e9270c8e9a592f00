package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Kafka's special timestamps in ListOffsets, in addition to package partition's. No records are in
// tiered storage here.
const (
	earliestLocal         = -4 // from version 8 on: the start offset, as all is on local disk
	latestTiered          = -5 // from version 9 on
	earliestPendingUpload = -6 // from version 11 on
)

// listOffsets returns the offset of a timestamp, or the start or end offset, of each partition.
// Each version supports some of the special timestamps; for others a partition has
// UNSUPPORTED_VERSION. Key 2, versions 1 to 11.
func (c *call) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	refused := Code(0)
	if req.IsolationLevel != 0 && req.IsolationLevel != 1 {
		refused = UnknownServerError // the result of Kafka's IsolationLevel.forId
	}
	times := map[record.TopicPartition]int{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			times[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}]++
		}
	}
	isolation := partition.ReadUncommitted
	if req.IsolationLevel == 1 {
		isolation = partition.ReadCommitted
	}
	for _, t := range each(c, req.Topics) {
		answer := kmsg.NewListOffsetsResponseTopic()
		answer.Topic = t.Topic
		for _, p := range each(c, t.Partitions) {
			tp := record.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			ap := kmsg.NewListOffsetsResponseTopicPartition()
			ap.Partition, ap.Offset, ap.Timestamp, ap.LeaderEpoch = p.Partition, -1, -1, -1
			switch n := times[tp]; {
			case n < 0:
				continue // answered already
			case refused != 0:
				ap.ErrorCode = int16(refused)
			case n > 1:
				ap.ErrorCode = int16(InvalidRequest)
			default:
				res, err := c.listOffset(tp, p.CurrentLeaderEpoch, p.Timestamp, isolation)
				ap.ErrorCode = offsetCode(c.errorCode(err), c.version)
				if err == nil {
					ap.Offset, ap.Timestamp, ap.LeaderEpoch = res.Offset, res.TimestampMs, res.LeaderEpoch
				}
			}
			times[tp] = -1
			answer.Partitions = append(answer.Partitions, ap)
		}
		if len(answer.Partitions) > 0 || refused != 0 {
			resp.Topics = append(resp.Topics, answer)
		}
	}
	return resp
}

// offsetCode returns the code for a version of ListOffsets. OFFSET_NOT_AVAILABLE exists from
// version 5 on; in earlier versions LEADER_NOT_AVAILABLE makes clients look for the leader again.
func offsetCode(code int16, version int16) int16 {
	if Code(code) == OffsetNotAvailable && version < 5 {
		return int16(LeaderNotAvailable)
	}
	return code
}

func (c *call) listOffset(tp record.TopicPartition, epoch int32, at int64, isolation partition.Isolation) (res partition.OffsetResult, err error) {
	if at < 0 && !c.knowsOffset(at) {
		return res, refuse(UnsupportedVersion, "unknown meaning of an offset")
	}
	if err := c.view.CheckLeaderEpoch(tp, epoch); err != nil {
		return res, err
	}
	switch at {
	case latestTiered, earliestPendingUpload:
		return partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}, nil
	case earliestLocal:
		at = int64(partition.Earliest)
	}
	spec := partition.OffsetSpec(at)
	found, err := c.view.ListOffsets(c.ctx, map[record.TopicPartition]partition.OffsetSpec{tp: spec}, isolation)
	if err != nil {
		return res, err
	}
	return found[tp], found[tp].Err
}

// knowsOffset reports whether the request's version supports a special, negative timestamp.
func (c *call) knowsOffset(at int64) bool {
	switch at {
	case int64(partition.Latest), int64(partition.Earliest):
		return true
	case int64(partition.MaxTimestamp):
		return c.version >= 7
	case earliestLocal:
		return c.version >= 8
	case latestTiered:
		return c.version >= 9
	case earliestPendingUpload:
		return c.version >= 11
	}
	return false
}
