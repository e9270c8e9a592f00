package kafka

import (
	"log/slog"
	"sync"
	"time"
)

// Failed logins are logged at Warn, so many a minute; a client that guesses would fill the disk.
// What is beyond is logged at Debug, and counted.
const (
	loginsLogged     = 10
	loginsLoggedTime = time.Minute
)

// A loginLog bounds the warnings of failed logins of a server. The zero value is ready.
type loginLog struct {
	mu      sync.Mutex // guards the fields below; a leaf
	since   time.Time  // when the current minute began
	logged  int        // in the current minute
	skipped int        // failed logins that were not warned of, since the last that was
}

// next returns the level of a failed login, and of a warning how many were left out before it.
func (l *loginLog) next(now time.Time) (level slog.Level, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= loginsLoggedTime {
		l.since, l.logged = now, 0
	}
	if l.logged == loginsLogged {
		l.skipped++
		return slog.LevelDebug, 0
	}
	l.logged++
	skipped, l.skipped = l.skipped, 0
	return slog.LevelWarn, skipped
}

// loginFailed logs that a client of the connection has not proved who it is.
func (c *conn) loginFailed(err error, more ...any) {
	level, skipped := c.s.logins.next(time.Now())
	args := append([]any{"remote", c.host, "conn", c.id, "listener", c.listener, "error", err}, more...)
	if skipped > 0 {
		args = append(args, "not_logged_before", skipped)
	}
	c.s.log.Log(c.s.ctx, level, "authentication failed", args...)
}
