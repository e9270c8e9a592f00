package clientquota

import (
	"math"
	"time"
)

// The windows of rates. Kafka: quota.window.num and quota.window.size.seconds.
const (
	windows  = 11
	windowMs = 1000
)

// A rate measures the usage in the last eleven windows. Times are milliseconds. Kafka: Rate over
// SampledStat.
type rate struct {
	samples [windows + 1]sample
	made    int // number of samples
	current int // index of the newest
}

type sample struct {
	start, last int64
	used        float64
}

// record adds usage at a time. The newest sample covers a window; then the next one replaces the
// oldest.
func (r *rate) record(now int64, used float64) {
	if r.made == 0 {
		r.made, r.samples[0] = 1, sample{start: now}
	} else if now-r.samples[r.current].start >= windowMs {
		r.current = (r.current + 1) % len(r.samples)
		r.made = max(r.made, r.current+1)
		r.samples[r.current] = sample{start: now}
	}
	s := &r.samples[r.current]
	s.used, s.last = s.used+used, now
}

// measure returns the usage per second, and the milliseconds over which it was measured: at least
// ten windows, so that a first burst does not count for more. Samples that are too old are reset.
func (r *rate) measure(now int64) (perSecond float64, over int64) {
	used, oldest := 0.0, now
	for i := range r.samples[:r.made] {
		s := &r.samples[i]
		if now-s.last >= windows*windowMs {
			*s = sample{start: now, last: now}
		}
		used, oldest = used+s.used, min(oldest, s.start)
	}
	over = now - oldest
	if full := over / windowMs; full < windows-1 {
		over += (windows - 1 - full) * windowMs
	}
	return used / (float64(over) / 1000), over
}

// idle reports whether a new rate would measure the same.
func (r *rate) idle(now int64) bool {
	for _, s := range r.samples[:r.made] {
		if now-s.last < windows*windowMs {
			return false
		}
	}
	return true
}

// throttle returns the time after which this rate is within the limit. Kafka:
// QuotaUtils.throttleTime.
func (r *rate) throttle(now int64, limit float64) time.Duration {
	perSecond, over := r.measure(now)
	if perSecond <= limit {
		return 0
	}
	return milliseconds((perSecond - limit) / limit * float64(over))
}

// milliseconds rounds as Java does, within the range of a response.
func milliseconds(ms float64) time.Duration {
	return time.Duration(min(math.Floor(ms+0.5), math.MaxInt32)) * time.Millisecond
}

// A tokenBucket is refilled at the limit, up to eleven seconds' worth. Kafka: TokenBucket.
type tokenBucket struct {
	tokens float64
	filled int64 // time of the last refill
}

// refill adds the tokens due and returns their number. A new bucket is full.
func (b *tokenBucket) refill(now int64, limit float64) float64 {
	b.tokens = min(b.most(limit), b.tokens+limit*float64(now-b.filled)/1000)
	b.filled = now
	return b.tokens
}

func (*tokenBucket) most(limit float64) float64 { return limit * windows * windowMs / 1000 }

// wait returns the time until no token is owed.
func (b *tokenBucket) wait(limit float64) time.Duration {
	if b.tokens >= 0 {
		return 0
	}
	return milliseconds(-b.tokens / limit * 1000)
}
