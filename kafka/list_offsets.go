package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// What ListOffsets may ask for besides a time. Kafka: ListOffsetsRequest.
const (
	latestOffset        = -1
	earliestOffset      = -2
	maxTimestampOffset  = -3 // from version 7
	earliestLocalOffset = -4 // from version 8; the earliest: nothing is tiered
	latestTieredOffset  = -5 // from version 9; there is none
	pendingUploadOffset = -6 // from version 11; there is none
)

var errOffsetSpec = refuse(UnsupportedVersion, "kafka: no such offset in this version of the request")

// listOffsets finds offsets by meaning or by time.
func (c *call) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	isolation := partition.ReadUncommitted
	if req.IsolationLevel == readCommitted {
		isolation = partition.ReadCommitted
	}
	specs := map[record.TopicPartition]partition.OffsetSpec{}
	duplicate := map[record.TopicPartition]bool{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			_, twice := specs[tp]
			duplicate[tp] = duplicate[tp] || twice
			switch {
			case p.Timestamp >= maxTimestampOffset:
				specs[tp] = partition.OffsetSpec(p.Timestamp)
			case p.Timestamp == earliestLocalOffset:
				specs[tp] = partition.Earliest
			}
		}
	}
	found, err := c.s.cluster.ListOffsets(c.ctx, specs, isolation)
	for _, t := range req.Topics {
		rt := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.Timestamp, rp.LeaderEpoch = p.Partition, -1, -1, -1
			failure := err
			switch {
			case duplicate[tp]:
				failure = refuse(InvalidRequest, "kafka: partition asked for twice")
			case !c.knowsOffsetSpec(p.Timestamp):
				failure = errOffsetSpec
			case failure == nil && p.CurrentLeaderEpoch >= 0:
				failure = c.checkLeaderEpoch(tp, p.CurrentLeaderEpoch)
			}
			if r, ok := found[tp]; ok && failure == nil {
				if failure = r.Err; failure == nil {
					rp.Offset, rp.Timestamp, rp.LeaderEpoch = r.Offset, r.TimestampMs, r.LeaderEpoch
				}
			}
			rp.ErrorCode = c.errorCode(failure)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// knowsOffsetSpec reports whether the request's version has the special offset.
func (c *call) knowsOffsetSpec(timestamp int64) bool {
	switch timestamp {
	case maxTimestampOffset:
		return c.version >= 7
	case earliestLocalOffset:
		return c.version >= 8
	case latestTieredOffset:
		return c.version >= 9
	case pendingUploadOffset:
		return c.version >= 11
	}
	return timestamp >= earliestOffset
}

// checkLeaderEpoch compares the epoch that a client believes in with the partition's.
func (c *call) checkLeaderEpoch(tp record.TopicPartition, epoch int32) error {
	m, err := c.s.cluster.Metadata(c.ctx, tp.Topic)
	if err != nil {
		return err
	}
	t := m.Topics[tp.Topic]
	switch {
	case t.Err != nil:
		return t.Err
	case tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions):
		return refuse(UnknownTopicOrPartition, "kafka: unknown partition")
	case epoch < t.Partitions[tp.Partition].LeaderEpoch:
		return partition.ErrFencedLeaderEpoch
	case epoch > t.Partitions[tp.Partition].LeaderEpoch:
		return partition.ErrUnknownLeaderEpoch
	}
	return nil
}
