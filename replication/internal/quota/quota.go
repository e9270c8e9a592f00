// Package quota measures a rate and determines when more may be sent. It only computes: the time is
// an argument.
package quota

import (
	"math"
	"time"
)

// The windows of the measurement. Kafka: replication.quota.window.num and
// replication.quota.window.size.seconds.
const (
	Windows = 11
	Window  = time.Second
)

// While the rate is not exceeded, Room returns at least 1/step of a second's bytes. So an
// exhausted quota is checked about ten times a second, and not once for each batch.
const step = 10

// A Quota counts the bytes of the last eleven seconds, to compare them with a rate. The average is
// taken since the oldest of them, or over a second if that is longer. So after a pause the bytes of
// one second may be sent at once, and an excess is compensated. Bytes older than eleven seconds do
// not count, even if they were an excess. The zero Quota has counted nothing. It is not safe for
// concurrent use. Kafka: SimpleRate over SampledStat.
type Quota struct {
	samples [Windows]sample // the first n are in use, oldest first; at least a Window apart
	n       int
}

// sample has the bytes of a Window.
type sample struct {
	start time.Time
	bytes int64
}

// Record counts bytes. A time that is before an earlier call's, by less than a Window, counts as
// the earlier call's.
func (q *Quota) Record(now time.Time, bytes int) {
	q.forget(now)
	if q.n == 0 || now.Sub(q.samples[q.n-1].start) >= Window {
		q.samples[q.n] = sample{start: now}
		q.n++
	}
	q.samples[q.n-1].bytes += int64(bytes)
}

// Room returns the number of bytes that may be sent now at a rate (bytes a second, not negative).
// While the rate is exceeded it is 0, and until is the time when it no longer will be, if nothing
// is recorded before then. Otherwise it is at least 1, and a caller may send a larger piece whole.
func (q *Quota) Room(now time.Time, rate int64) (bytes int64, until time.Time) {
	q.forget(now)
	if until = q.due(rate); now.Before(until) {
		return 0, until
	}
	var sum int64
	age := Window
	for i, s := range q.samples[:q.n] {
		sum += s.bytes
		if i == 0 {
			age = max(age, now.Sub(s.start))
		}
	}
	left := float64(rate)*age.Seconds() - float64(sum)
	left = max(left, float64(rate)/step, 1)
	if left >= math.MaxInt64 {
		return math.MaxInt64, time.Time{}
	}
	return int64(left), time.Time{}
}

// due returns the time from which the rate is not exceeded; a past or zero time means that it is
// not.
func (q *Quota) due(rate int64) (at time.Time) {
	var sum int64
	for _, s := range q.samples[:q.n] {
		sum += s.bytes
	}
	for _, s := range q.samples[:q.n] {
		made := s.start // when the samples from this one on have an average of at most the rate
		if sum > rate {
			made = made.Add(lasts(sum, rate))
		}
		if at.Before(made) {
			at = made
		}
		end := s.start.Add(Windows * Window)
		if at.Before(end) {
			return at
		}
		at, sum = end, sum-s.bytes
	}
	return at
}

// lasts returns the time that so many bytes take at a rate, rounded up. If that exceeds all
// windows, it returns one more Window than these.
func lasts(bytes, rate int64) time.Duration {
	seconds := float64(bytes) / float64(rate)
	if !(seconds <= (Windows * Window).Seconds()) { // also if the rate is 0
		return (Windows + 1) * Window
	}
	return time.Duration(math.Ceil(seconds * float64(time.Second)))
}

// Samples that are too old to count are removed.
func (q *Quota) forget(now time.Time) {
	gone := 0
	for gone < q.n && now.Sub(q.samples[gone].start) >= Windows*Window {
		gone++
	}
	if gone > 0 {
		q.n = copy(q.samples[:], q.samples[gone:q.n])
	}
}
