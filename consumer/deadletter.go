package consumer

import (
	"context"
	"errors"
	"strconv"

	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// Headers of a record in a dead letter topic, beside its own. Numbers are decimal.
const (
	HeaderTopic     = "dead-letter.topic"     // where the record was read first
	HeaderPartition = "dead-letter.partition" // likewise
	HeaderOffset    = "dead-letter.offset"    // likewise
	HeaderError     = "dead-letter.error"     // what went wrong, at most 1 KiB
	HeaderAttempts  = "dead-letter.attempts"  // calls of the handler
	HeaderStack     = "dead-letter.stack"     // of a handler that panicked, at most 8 KiB
	// HeaderOmitted names the parts left out for size: "value", "value,headers" or
	// "key,value,headers".
	HeaderOmitted = "dead-letter.omitted"
)

const (
	deadLetterHeaders = "dead-letter."
	maxStackHeader    = 8 << 10
)

// DeadLetterTopic returns a RunConfig.DeadLetter that sends failed records to a topic through p,
// with key, value, timestamp and headers as they were, and headers that say where they came from
// and what went wrong. It returns when the record is acknowledged.
//
// With those headers a record may be larger than the producer or the topic accepts. Then less is
// sent: first without HeaderStack, then without the value, then without its own headers, then
// without the key, as HeaderOmitted says; what was left out can be read at the record's origin
// (Origin) for as long as that topic retains it. If even that is too large, the error is
// producer.ErrMessageTooLarge.
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

// omission is how much of a record is left out for size; each leaves out what those before it do.
type omission int

const (
	omitNothing omission = iota
	omitStack
	omitValue
	omitHeaders
	omitKey
)

// deadLetter returns a record for a dead letter topic. differs says whether it is smaller than with
// one omission less.
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
