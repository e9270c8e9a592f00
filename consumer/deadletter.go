package consumer

import (
	"context"
	"errors"
	"strconv"

	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// Headers of a record in a dead letter topic, in addition to its own. Numbers are decimal.
const (
	HeaderTopic     = "dead-letter.topic"     // topic it was first read from
	HeaderPartition = "dead-letter.partition" // partition it was first read from
	HeaderOffset    = "dead-letter.offset"    // offset in that partition
	HeaderError     = "dead-letter.error"     // text of the error, at most 1 KiB
	HeaderAttempts  = "dead-letter.attempts"  // number of handler calls
	HeaderStack     = "dead-letter.stack"     // stack of a handler that panicked, at most 8 KiB
	// HeaderOmitted names the parts left out because of size: "value", "value,headers" or
	// "key,value,headers".
	HeaderOmitted = "dead-letter.omitted"
)

const (
	deadLetterHeaders = "dead-letter."
	maxStackHeader    = 8 << 10
)

// DeadLetterTopic returns a RunConfig.DeadLetter that sends failed records to a topic through p.
// Key, value, timestamp and headers are kept; more headers describe the record's origin and its
// error. The function returns when the record is acknowledged.
//
// These headers can make a record larger than the producer or the topic accepts. Parts are then
// left out in this order: HeaderStack, the value, the record's own headers, the key. HeaderOmitted
// lists them. The omitted parts can be read at the record's origin (Origin) as long as that topic
// retains it. If the rest is still too large, the error is producer.ErrMessageTooLarge.
func DeadLetterTopic(p *producer.Producer, topic string) func(context.Context, record.Record, error) error {
	return func(ctx context.Context, r record.Record, cause error) error {
		var err error
		for omit := omitNothing; omit <= omitKey; omit++ {
			dead, differs := deadLetter(ctx, r, cause, omit)
			if omit > omitNothing && !differs {
				continue // it would be as large as before
			}
			dead.Topic = topic
			if _, err = p.Send(ctx, dead); !errors.Is(err, producer.ErrMessageTooLarge) {
				return err
			}
		}
		return err
	}
}

// omission is the part of a record left out because of size; each value includes the previous ones.
type omission int

const (
	omitNothing omission = iota
	omitStack
	omitValue
	omitHeaders
	omitKey
)

// deadLetter returns a record for a dead letter topic. differs reports whether it is smaller than
// with the previous omission.
func deadLetter(ctx context.Context, r record.Record, cause error, omit omission) (dead record.Record, differs bool) {
	dead = record.Record{Timestamp: r.Timestamp}
	var omitted string
	if omit < omitKey {
		dead.Key = r.Key
	}
	if omit < omitValue {
		dead.Value = r.Value
	}
	own := without(without(r.Headers, retryHeaders), deadLetterHeaders)
	if omit < omitHeaders {
		dead.Headers = own
	}
	var panicked *HandlerPanicError
	stack := errors.As(cause, &panicked)
	switch omit {
	case omitStack:
		differs = stack
	case omitValue:
		omitted, differs = "value", len(r.Value) > 0
	case omitHeaders:
		omitted, differs = "value,headers", len(own) > 0
	case omitKey:
		omitted, differs = "key,value,headers", len(r.Key) > 0
	}
	add := func(key string, value []byte) {
		dead.Headers = append(dead.Headers, record.Header{Key: key, Value: value})
	}
	from, offset, _ := Origin(r)
	add(HeaderTopic, []byte(from.Topic))
	add(HeaderPartition, strconv.AppendInt(nil, int64(from.Partition), 10))
	add(HeaderOffset, strconv.AppendInt(nil, offset, 10))
	add(HeaderError, errorText(cause))
	if n := Attempt(ctx); n > 0 {
		add(HeaderAttempts, strconv.AppendInt(nil, int64(n), 10))
	}
	if stack && omit < omitStack {
		add(HeaderStack, panicked.Stack[:min(len(panicked.Stack), maxStackHeader)])
	}
	if omitted != "" {
		add(HeaderOmitted, []byte(omitted))
	}
	return dead, differs
}
