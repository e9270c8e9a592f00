package kafka

import (
	"sync"
	"time"
)

const (
	// logBurst is how many lines of a kind are logged in one logPeriod.
	logBurst  = 10
	logPeriod = 10 * time.Second
)

// A logPace bounds the lines of one kind that clients can cause. The zero logPace is ready to use.
// It is safe for concurrent use.
type logPace struct {
	mu      sync.Mutex // guards the fields below; a leaf
	began   time.Time  // of the current period
	lines   int        // in the current period
	dropped int        // lines since the last one that was logged
}

// next reports whether a line may be logged now, and how many were left out before it.
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
