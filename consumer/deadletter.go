package consumer

import (
	"context"
	"slices"
	"strconv"

	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// Headers of a record in a dead letter topic, beside its own.
const (
	HeaderTopic     = "dead-letter.topic"
	HeaderPartition = "dead-letter.partition"
	HeaderOffset    = "dead-letter.offset"
	HeaderError     = "dead-letter.error"
)

// DeadLetterTopic returns a RunConfig.DeadLetter that sends failed records to a topic through p, with key, value, timestamp and headers as
// they were, and headers that say where they came from and what went wrong. It returns when the record is acknowledged.
func DeadLetterTopic(p *producer.Producer, topic string) func(context.Context, record.Record, error) error {
	return func(ctx context.Context, r record.Record, cause error) error {
		dead := record.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: append(slices.Clip(r.Headers),
			record.Header{Key: HeaderTopic, Value: []byte(r.Topic)},
			record.Header{Key: HeaderPartition, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
			record.Header{Key: HeaderOffset, Value: strconv.AppendInt(nil, r.Offset, 10)},
			record.Header{Key: HeaderError, Value: []byte(cause.Error())},
		)}
		_, err := p.Send(ctx, dead)
		return err
	}
}
