package kafka

import (
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// offsetCommit serves OffsetCommit, with topic ids from version 10 on. The response has no error
// code for the whole request, so each partition has its error. A missing partition always has its
// own error. Key 8, versions 2 to 10.
func (c *call) offsetCommit(req *kmsg.OffsetCommitRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	r := c.commitRequest(req)
	var errs map[record.TopicPartition]error
	var failed error
	if len(r.Offsets) > 0 {
		errs, failed = c.groups.CommitOffsets(c.bounded(), r)
	}
	code := c.errorCode(failed)
	// no such group: its code is newer than most versions
	if errors.Is(failed, group.ErrIllegalGeneration) && errors.Is(failed, group.ErrGroupNotFound) {
		code = int16(IllegalGeneration)
		if req.Version >= 9 {
			code = int16(GroupIDNotFound)
		}
	}
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			switch err, told := errs[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}]; {
			case req.Version >= 10 && t.Topic == "":
				rp.ErrorCode = int16(UnknownTopicID)
			case told:
				rp.ErrorCode = c.errorCode(err)
			default:
				rp.ErrorCode = code
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(t.Partitions) > 0 || !c.hasTopic(t.Topic) { // as in Kafka
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

// commitRequest translates req, and sets the names of topics that req has by id. The name of a
// missing topic stays empty.
func (c *call) commitRequest(req *kmsg.OffsetCommitRequest) group.CommitRequest {
	r := group.CommitRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), Generation: req.Generation, NoEpochs: req.Version < 9,
		Offsets: make(map[record.TopicPartition]record.Committed)}
	if req.Version <= 4 && req.RetentionTimeMillis != -1 {
		ms := min(max(req.RetentionTimeMillis, 0), math.MaxInt64/int64(time.Millisecond))
		// 0 means for CommitOffsets the same as -1 in the request
		r.Retention = max(time.Duration(ms)*time.Millisecond, 1)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		if req.Version >= 10 {
			if t.Topic, _ = c.s.cluster.TopicName(t.TopicID); t.Topic == "" {
				continue
			}
		}
		for _, p := range t.Partitions {
			r.Offsets[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}] =
				record.Committed{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: orEmpty(p.Metadata)}
		}
	}
	return r
}
