package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// describeProducers returns the producer states of partitions, to find hanging transactions and to
// inspect sequences (KIP-664). Key 61, version 0.
func (c *call) describeProducers(req *kmsg.DescribeProducersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, t := range each(c, req.Topics) {
		answer := kmsg.NewDescribeProducersResponseTopic()
		answer.Topic = t.Topic
		for _, p := range each(c, t.Partitions) {
			ap := kmsg.NewDescribeProducersResponseTopicPartition()
			err := nameSays(topic.ValidateName(t.Topic), t.Topic)
			var states []partition.ProducerState
			if err == nil {
				states, err = c.view.Producers(c.ctx, record.TopicPartition{Topic: t.Topic, Partition: p})
				if text := textUnknownTopic; errors.Is(err, replication.ErrUnknownTopic) {
					if c.hasTopic(t.Topic) {
						text = "" // as in Kafka, which looks up the topic before the partition
					}
					err = refuse(UnknownTopicOrPartition, text)
				}
			}
			ap.Partition, ap.ErrorCode, ap.ErrorMessage = p, c.errorCode(err), errorMessage(err)
			for _, s := range states {
				ap.ActiveProducers = append(ap.ActiveProducers, kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
					ProducerID: s.ProducerID, ProducerEpoch: int32(s.Epoch), LastSequence: s.LastSequence, LastTimestamp: s.LastTimestampMs,
					CoordinatorEpoch: s.CoordinatorEpoch, CurrentTxnStartOffset: s.TxnFirstOffset,
				})
			}
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}
