// Package loglimit bounds the lines of a log about events that clients can cause at any rate. They
// could fill the disk.
package loglimit

import (
	"log/slog"
	"sync"
	"time"
)

// At most Lines lines in each Interval are written at the level of the event.
const (
	Lines    = 10
	Interval = time.Minute
)

// A Limit bounds the lines about one kind of event. The zero value is ready. It is safe for
// concurrent use.
type Limit struct {
	mu      sync.Mutex // guards the fields below; a leaf
	since   time.Time  // start of the current interval
	logged  int        // lines in the current interval
	skipped int        // events without a line since the last line
}

// Next returns the level for an event: level, or Debug after too many lines. For a line it also
// returns the number of events without one since the previous line.
func (l *Limit) Next(now time.Time, level slog.Level) (_ slog.Level, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= Interval {
		l.since, l.logged = now, 0
	}
	if l.logged == Lines {
		l.skipped++
		return slog.LevelDebug, 0
	}
	l.logged++
	skipped, l.skipped = l.skipped, 0
	return level, skipped
}
