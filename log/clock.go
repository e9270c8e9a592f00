package log

import (
	"sync/atomic"
	"time"
)

// A wallClock returns the present time in ms at a lower cost than time.Now, which reads two clocks
// of the system. It reads the monotonic clock, and compares it with the wall clock once a
// millisecond. So it follows a change of the wall clock a millisecond late. It is safe for
// concurrent use.
type wallClock struct {
	begun time.Time
	// wall is the time of begun as of the last look, in ns since the Unix epoch. It changes when
	// the clock is set.
	wall  atomic.Int64
	until atomic.Int64 // look again then, in ns since begun
}

const wallClockLook = time.Millisecond

func (c *wallClock) init() { c.begun = time.Now() }

// now returns the time in ms since the Unix epoch.
func (c *wallClock) now() int64 {
	since := int64(time.Since(c.begun))
	if since >= c.until.Load() {
		since = c.look()
	}
	return (c.wall.Load() + since) / int64(time.Millisecond)
}

func (c *wallClock) look() int64 {
	t := time.Now()
	since := int64(t.Sub(c.begun))
	c.wall.Store(t.UnixNano() - since)
	c.until.Store(since + int64(wallClockLook))
	return since
}
