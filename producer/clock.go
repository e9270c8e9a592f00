package producer

import "time"

// clock is an instant of the wall clock. Records are stamped from the last one read, since reading
// the wall clock and the monotonic clock for each record cost a third of SendAsync.
type clock struct {
	at   time.Time
	wall int64 // nanoseconds since the Unix epoch
}

// clockAge is the time for which the wall clock is extrapolated, and thus the delay until a step of
// it is noticed.
const clockAge = int64(time.Second)

// stamp returns the present time in milliseconds since the Unix epoch.
func (p *Producer) stamp() int64 {
	if ms := p.coarse.ms.Load(); ms != 0 {
		return ms
	}
	c := p.clock.Load()
	d := int64(time.Since(c.at))
	if d > clockAge {
		now := time.Now()
		c, d = &clock{now, now.UnixNano()}, 0
		p.clock.Store(c)
	}
	return (c.wall + d) / int64(time.Millisecond)
}
