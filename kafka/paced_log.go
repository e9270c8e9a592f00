package kafka

import (
	"sync"
	"time"
)

const (
	// logBurst is the number of lines of a kind that are logged in one logPeriod.
	logBurst  = 10
	logPeriod = 10 * time.Second
)

// A logPace limits the log lines of one kind that clients can cause. The zero logPace is ready to
// use. It is safe for concurrent use.
type logPace struct {
	mu      sync.Mutex // guards the fields below; a leaf
	began   time.Time  // start of the current period
	lines   int        // in the current period
	dropped int        // dropped lines since the last logged line
}

// next reports whether a line may be logged now, and how many were dropped before it.
func (p *logPace) next() (dropped int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.began) >= logPeriod {
		p.began, p.lines = now, 0
	}
	if p.lines++; p.lines > logBurst {
		p.dropped++
		return 0, false
	}
	dropped, p.dropped = p.dropped, 0
	return dropped, true
}
