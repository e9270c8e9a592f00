package producer

import "time"

// clock is an instant on the wall and on the producer's clock. Records are stamped from the one read last: asking the system for both clocks for
// each record cost a third of SendAsync.
type clock struct {
	at   time.Time
	wall int64 // nanoseconds since the Unix epoch
	mono int64 // on the producer's clock
}

// clockAge is how long the wall clock is extrapolated, and so how late a step of it is noticed.
const clockAge = int64(time.Second)

// instant returns the present time in milliseconds since the Unix epoch, and on the producer's clock.
func (p *Producer) instant() (tsMs, mono int64) {
	c := p.clock.Load()
	d := int64(time.Since(c.at))
	if d > clockAge {
		now := time.Now()
		c, d = &clock{now, now.UnixNano(), int64(now.Sub(p.start))}, 0
		p.clock.Store(c)
	}
	return (c.wall + d) / int64(time.Millisecond), c.mono + d
}
