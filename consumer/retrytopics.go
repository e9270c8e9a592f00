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

// RetryTopics are topics in which records that failed wait for their next attempts, across
// restarts, while the records behind them go on.
//
// A record that has failed 1+RunConfig.Retries times is sent to the topic of the first stage, with
// its key, value and headers and with headers that say when it is due, which attempt it was and
// where it came from (HeaderRetryDue and the others); then it counts as processed at its source. A
// Run with the same RetryTopics whose consumer subscribes to the stage's topic too (or another
// consumer's, or another group's) hands it out when it is due, again up to 1+Retries times, before
// it goes on to the next stage. After the last stage it has failed for good: DeadLetter. A record
// that is too large for a stage's topic goes there at once, and so does one with a Permanent error.
//
// Order: a record in a retry topic has been overtaken by those behind it, also by those of its key,
// and records of a retry topic are in no order with each other, whatever RunConfig.Order says.
// Where the order of a key matters more than its progress, use Retries instead.
//
// Give each stage a topic of its own, so that its records fall due in the order in which they lie.
// Stages may share a topic; then a long delay in front of short ones keeps the committed offset
// back, and after a restart records behind it that are done are handed out again. Of a partition at
// most MaxInFlight records wait in memory; with more, the next are looked at when the first are
// done. Delays count from the failure, by the clocks of the processes that send and read; a due
// time further away than the longest delay is taken for that delay. Retention of the topic must be
// longer than the longest delay and the longest downtime.
type RetryTopics struct {
	Producer *producer.Producer // sends to the topics; not closed by Run
	Stages   []RetryStage       // in order; at least one
}

// A RetryStage is one stay in a retry topic.
type RetryStage struct {
	Topic string        // must exist, with any number of partitions
	Delay time.Duration // from the failure to the next attempt; positive
}

// Headers of a record in a retry topic, beside its own. Numbers are decimal.
const (
	HeaderRetryDue       = "retry.due"       // when it is handed out: milliseconds since 1970
	HeaderRetryStage     = "retry.stage"     // stages that it has come to, 1 in the first one
	HeaderRetryAttempts  = "retry.attempts"  // calls of the handler so far
	HeaderRetryTopic     = "retry.topic"     // where it was read first
	HeaderRetryPartition = "retry.partition" // likewise
	HeaderRetryOffset    = "retry.offset"    // likewise
	HeaderRetryTimestamp = "retry.timestamp" // likewise: its timestamp, milliseconds since 1970
	HeaderRetryError     = "retry.error"     // of the last attempt, at most 1 KiB
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

// stage returns the stage that j goes to next; nil: none is left.
func (rt *RetryTopics) stage(j *job) *RetryStage {
	if rt == nil || j.stage >= len(rt.Stages) {
		return nil
	}
	return &rt.Stages[j.stage]
}

// receive sets up a job whose record may come from one of the topics: its due time, its history,
// and the timestamp that it had at first.
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
	// The timestamp is new: retention of the topic counts from the failure.
	r := record.Record{Topic: s.Topic, Key: j.rec.Key, Value: j.rec.Value, Headers: append(slices.Clip(headers),
		record.Header{Key: HeaderRetryError, Value: errorText(cause)})}
	_, err := rt.Producer.Send(ctx, r)
	if errors.Is(err, producer.ErrMessageTooLarge) {
		r.Headers = headers
		_, err = rt.Producer.Send(ctx, r)
	}
	return err
}

// Origin returns where a record was read first that came through retry topics or was dead-lettered.
// For others, and for headers that are not those of this package, it is the record's own place, and
// ok is false.
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

// without returns the headers whose keys do not begin with prefix, in memory of its own.
func without(headers []record.Header, prefix string) []record.Header {
	out := make([]record.Header, 0, len(headers)+8)
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, prefix) {
			out = append(out, h)
		}
	}
	return out
}

// errorText is an error as the value of a header.
func errorText(err error) []byte {
	text := err.Error()
	if len(text) > maxErrorHeader {
		text = strings.ToValidUTF8(text[:maxErrorHeader], "")
	}
	return []byte(text)
}
