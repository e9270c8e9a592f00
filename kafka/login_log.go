package kafka

import (
	"log/slog"
	"time"
)

// loginFailed logs that the client of the connection failed to authenticate.
func (c *conn) loginFailed(err error, more ...any) {
	level, skipped := c.s.logins.Next(time.Now(), slog.LevelWarn)
	args := append([]any{"remote", c.host, "conn", c.id, "listener", c.listener, "error", err}, more...)
	if skipped > 0 {
		args = append(args, "not_logged_before", skipped)
	}
	c.s.log.Log(c.s.ctx, level, "authentication failed", args...)
}
