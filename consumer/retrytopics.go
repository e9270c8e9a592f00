package consumer

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// RetryTopics are topics in which failed records wait for their next attempt, across restarts,
// while later records are processed.
//
// A record that has failed 1+RunConfig.Retries times is sent to the topic of the first stage and
// then counts as processed at its source. It keeps its key, value and headers, and gets headers
// with its due time, attempt number and origin (HeaderRetryDue and the others). A Run with the same
// RetryTopics hands it out when it is due, again up to 1+Retries times, before it moves to the next
// stage. The consumer of that Run subscribes to the stage's topic; it may be the same consumer,
// another one, or one of another group. After the last stage the record has failed for good:
// DeadLetter is called. A record that is too large for a stage's topic goes to DeadLetter
// immediately, and so does one with a Permanent error.
//
// Order: later records overtake a record in a retry topic, including those with the same key.
// Records of a retry topic have no order among each other, whatever RunConfig.Order is. If the
// order of a key matters more than its progress, use Retries instead.
//
// Give each stage its own topic, so that records become due in the order in which they are stored.
// Stages may share a topic. But a long delay ahead of short ones then holds the committed offset
// back, and after a restart processed records behind it are handed out again. At most MaxInFlight
// records of a partition wait in memory; more are read when these are done.
//
// Delays count from the failure, by the clocks of the processes that send and read. A due time
// further away than the longest delay is shortened to that delay. The topic's retention must exceed
// the longest delay and the longest downtime.
type RetryTopics struct {
	Producer *producer.Producer // sends to the topics; Run does not close it
	Stages   []RetryStage       // in order; at least one
}

// A RetryStage is one stay in a retry topic.
type RetryStage struct {
	Topic string        // must exist, with any number of partitions
	Delay time.Duration // from the failure to the next attempt; positive
}

// Headers of a record in a retry topic, in addition to its own. Numbers are decimal.
const (
	HeaderRetryDue       = "retry.due"       // due time, in milliseconds since 1970
	HeaderRetryStage     = "retry.stage"     // number of stages reached, 1 in the first
	HeaderRetryAttempts  = "retry.attempts"  // number of handler calls so far
	HeaderRetryTopic     = "retry.topic"     // topic it was first read from
	HeaderRetryPartition = "retry.partition" // partition it was first read from
	HeaderRetryOffset    = "retry.offset"    // offset in that partition
	HeaderRetryTimestamp = "retry.timestamp" // timestamp of that record, in milliseconds since 1970
	HeaderRetryError     = "retry.error"     // error of the last attempt, at most 1 KiB
)

const retryHeaders = "retry."

// maxErrorHeader bounds the text of an error in a header.
const maxErrorHeader = 1 << 10

func (rt *RetryTopics) check() error {
	if rt == nil {
		return nil
	}
	if rt.Producer == nil || len(rt.Stages) == 0 {
		return &ConfigError{"RetryTopics", "needs a Producer and at least one stage"}
	}
	for _, s := range rt.Stages {
		if s.Topic == "" || s.Delay <= 0 {
			return &ConfigError{"RetryTopics", "every stage needs a Topic and a positive Delay"}
		}
	}
	return nil
}

// stage returns the next stage of j; nil: there is none.
func (rt *RetryTopics) stage(j *job) *RetryStage {
	if rt == nil || j.stage >= len(rt.Stages) {
		return nil
	}
	return &rt.Stages[j.stage]
}

// receive initialises a job whose record may come from a retry topic: its due time, its history,
// and its original timestamp.
func (rt *RetryTopics) receive(j *job) {
	if rt == nil || !slices.ContainsFunc(rt.Stages, func(s RetryStage) bool { return s.Topic == j.rec.Topic }) {
		return
	}
	j.free = true
	j.stage = int(min(headerNumber(j.rec, HeaderRetryStage), int64(len(rt.Stages))))
	j.before = int(min(headerNumber(j.rec, HeaderRetryAttempts), math.MaxInt32))
	if ms := headerNumber(j.rec, HeaderRetryDue); ms > 0 {
		longest := slices.MaxFunc(rt.Stages, func(a, b RetryStage) int { return int(a.Delay - b.Delay) }).Delay
		j.due = time.UnixMilli(ms)
		if most := time.Now().Add(longest); j.due.After(most) {
			j.due = most
		}
	}
	if ms, ok := j.rec.Header(HeaderRetryTimestamp); ok {
		if n, err := strconv.ParseInt(string(ms), 10, 64); err == nil {
			j.rec.Timestamp = time.UnixMilli(n)
		}
	}
}

// send sends j's record to a stage's topic and returns when it is acknowledged.
func (rt *RetryTopics) send(ctx context.Context, s *RetryStage, j *job, cause error) error {
	from, offset, _ := Origin(j.rec)
	number := func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
	headers := append(without(j.rec.Headers, retryHeaders),
		record.Header{Key: HeaderRetryDue, Value: number(time.Now().Add(s.Delay).UnixMilli())},
		record.Header{Key: HeaderRetryStage, Value: number(int64(j.stage + 1))},
		record.Header{Key: HeaderRetryAttempts, Value: number(int64(j.calls()))},
		record.Header{Key: HeaderRetryTopic, Value: []byte(from.Topic)},
		record.Header{Key: HeaderRetryPartition, Value: number(int64(from.Partition))},
		record.Header{Key: HeaderRetryOffset, Value: number(offset)},
		record.Header{Key: HeaderRetryTimestamp, Value: number(j.rec.Timestamp.UnixMilli())},
	)
	// The timestamp is new, so that the topic's retention counts from the failure.
	r := record.Record{Topic: s.Topic, Key: j.rec.Key, Value: j.rec.Value, Headers: append(slices.Clip(headers),
		record.Header{Key: HeaderRetryError, Value: errorText(cause)})}
	_, err := rt.Producer.Send(ctx, r)
	if errors.Is(err, producer.ErrMessageTooLarge) {
		r.Headers = headers
		_, err = rt.Producer.Send(ctx, r)
	}
	return err
}

// Origin returns the original place of a record that came through retry topics or was
// dead-lettered. For other records, and for headers of other origin, it returns
// the record's own place and ok is false.
func Origin(r record.Record) (tp record.TopicPartition, offset int64, ok bool) {
	for _, h := range [][3]string{
		{HeaderTopic, HeaderPartition, HeaderOffset},
		{HeaderRetryTopic, HeaderRetryPartition, HeaderRetryOffset},
	} {
		topic, ok := r.Header(h[0])
		partition, pok := r.Header(h[1])
		off, ook := r.Header(h[2])
		if !ok || !pok || !ook {
			continue
		}
		p, perr := strconv.ParseInt(string(partition), 10, 32)
		o, oerr := strconv.ParseInt(string(off), 10, 64)
		if perr == nil && oerr == nil && p >= 0 && o >= 0 {
			return record.TopicPartition{Topic: string(topic), Partition: int32(p)}, o, true
		}
	}
	return record.TopicPartition{Topic: r.Topic, Partition: r.Partition}, r.Offset, false
}

// headerNumber returns a header as a number; 0 if it has none, or a negative one.
func headerNumber(r record.Record, key string) int64 {
	v, _ := r.Header(key)
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// without returns the headers whose keys do not begin with prefix, in a new slice.
func without(headers []record.Header, prefix string) []record.Header {
	out := make([]record.Header, 0, len(headers)+8)
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, prefix) {
			out = append(out, h)
		}
	}
	return out
}

// errorText returns an error as the value of a header.
func errorText(err error) []byte {
	text := err.Error()
	if len(text) > maxErrorHeader {
		text = strings.ToValidUTF8(text[:maxErrorHeader], "")
	}
	return []byte(text)
}
