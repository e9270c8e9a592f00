package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

// offsetForLeaderEpoch returns the end offset of a leader epoch. With it clients and followers
// detect that the log was truncated (KIP-320). Key 23, versions 2 to 4.
func (c *call) offsetForLeaderEpoch(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range each(c, req.Topics) {
		answer := kmsg.NewOffsetForLeaderEpochResponseTopic()
		answer.Topic = t.Topic
		for _, p := range each(c, t.Partitions) {
			epoch, end, err := c.view.EpochEnd(c.ctx, record.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.CurrentLeaderEpoch, p.LeaderEpoch)
			ap := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			ap.Partition, ap.ErrorCode, ap.LeaderEpoch, ap.EndOffset = p.Partition, c.errorCode(err), epoch, end
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}
