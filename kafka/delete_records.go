package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// deleteRecords moves the start of partitions forward. When the response is sent, the new start is
// on stable storage at the leader and all followers whose brokers serve. So it survives a crash.
// Kafka can lose it in a crash within a minute. Key 21, versions 0 to 2.
func (c *call) deleteRecords(req *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	ctx, cancel := c.timeout(req.TimeoutMillis)
	defer cancel()
	for _, t := range each(c, req.Topics) {
		answer := kmsg.NewDeleteRecordsResponseTopic()
		answer.Topic = t.Topic
		for _, p := range each(c, t.Partitions) {
			start, err := c.deleteBefore(ctx, record.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Offset)
			ap := kmsg.NewDeleteRecordsResponseTopicPartition()
			ap.Partition, ap.LowWatermark, ap.ErrorCode = p.Partition, start, c.errorCode(err)
			answer.Partitions = append(answer.Partitions, ap)
		}
		if len(t.Partitions) > 0 {
			resp.Topics = append(resp.Topics, answer)
		}
	}
	return resp
}

func (c *call) deleteBefore(ctx context.Context, tp record.TopicPartition, offset int64) (int64, error) {
	if _, err := c.partitionOf(tp.Topic, tp.Partition); err == nil && topic.IsInternal(tp.Topic) {
		return -1, refuse(InvalidTopicException, "records of an internal topic cannot be deleted")
	}
	starts, err := c.view.DeleteRecords(ctx, map[record.TopicPartition]int64{tp: offset})
	if err != nil {
		return -1, err
	}
	return starts[tp], nil
}

// minTimeout is the shortest timeout of a client's change, because a change of metadata takes a
// sync of the disk.
const minTimeout = time.Second

// timeout bounds a change by the client's timeout. A change that is in progress at the timeout may
// still happen.
func (c *call) timeout(millis int32) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.ctx, max(time.Duration(millis)*time.Millisecond, minTimeout))
}
