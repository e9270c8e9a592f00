package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// offsetDelete serves OffsetDelete. It deletes offsets of topics that the group does not subscribe
// to (KIP-496). Key 47, version 0.
func (c *call) offsetDelete(req *kmsg.OffsetDeleteRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var tps []record.TopicPartition
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			tps = append(tps, record.TopicPartition{Topic: t.Topic, Partition: p.Partition})
		}
	}
	errs, err := map[record.TopicPartition]error(nil), group.ErrInvalidGroupID
	if req.Group != "" {
		errs, err = c.groups.DeleteOffsets(c.ctx, req.Group, tps...)
	}
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, c.errorCode(errs[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}])
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(t.Partitions) > 0 || !c.hasTopic(t.Topic) { // as in Kafka
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}
