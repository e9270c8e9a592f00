package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// impairments returns the errors of partitions of the topics from DescribeTopicPartitions. Strata
// reports a leader there that has damaged records, or does not acknowledge or show all records.
// The result is empty if the broker does not have the request: Kafka before 3.8.
func impairments(ctx context.Context, ask asker, topics kadm.TopicDetails) (found map[string]map[int32]error, err error) {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, t := range topics.Sorted() {
		r := kmsg.NewDescribeTopicPartitionsRequestTopic()
		r.Topic = t.Topic
		req.Topics = append(req.Topics, r)
	}
	found = map[string]map[int32]error{}
	for {
		resp, err := req.RequestWith(ctx, ask.client)
		if err != nil {
			return found, ctx.Err()
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && t.Topic != nil {
					if found[*t.Topic] == nil {
						found[*t.Topic] = map[int32]error{}
					}
					found[*t.Topic][p.Partition] = err
				}
			}
		}
		next := resp.NextCursor
		if next == nil {
			return found, nil
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: next.Topic, Partition: next.Partition}
	}
}

// impairedText returns the meaning of a partition's error for clients, and what helps; "" for an
// error that explains itself.
func impairedText(err error) string {
	switch {
	case errors.Is(err, kerr.KafkaStorageError):
		return "the leader cannot read or write all records; its broker's log has the file; `strata verify` shows the damage and what helps"
	case errors.Is(err, kerr.NotEnoughReplicas):
		return "acks=all fails and new records are not shown: start the brokers of the missing replicas, or lower min.insync.replicas"
	case errors.Is(err, kerr.OffsetNotAvailable):
		return "a new leader waits for its in-sync replicas to report: start their brokers if it lasts"
	}
	return ""
}
