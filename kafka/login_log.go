package kafka

import (
	"log/slog"
	"sync"
	"time"
)

// At most loginsLogged failed logins in loginsLoggedTime are logged at Warn, because a client that
// guesses passwords could fill the disk. Further ones are logged at Debug and counted.
const (
	loginsLogged     = 10
	loginsLoggedTime = time.Minute
)

// A loginLog limits the warnings about failed logins of a server. The zero value is ready.
type loginLog struct {
	mu      sync.Mutex // guards the fields below; a leaf
	since   time.Time  // start of the current minute
	logged  int        // warnings in the current minute
	skipped int        // failed logins without a warning since the last warning
}

// next returns the level of a failed login and, for a warning, the number of failed logins without
// one since the previous warning.
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

// loginFailed logs that the client of the connection failed to authenticate.
func (c *conn) loginFailed(err error, more ...any) {
	level, skipped := c.s.logins.next(time.Now())
	args := append([]any{"remote", c.host, "conn", c.id, "listener", c.listener, "error", err}, more...)
	if skipped > 0 {
		args = append(args, "not_logged_before", skipped)
	}
	c.s.log.Log(c.s.ctx, level, "authentication failed", args...)
}
