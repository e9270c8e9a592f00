package consumer

import "time"

// Bounds of settings without a warning.
const (
	shortSession = 10 * time.Second
	longSession  = 2 * time.Minute
	// mostHeartbeats is the largest number of heartbeats within a session timeout.
	mostHeartbeats = 100
)

// warnInterval is the shortest time between two warnings about failures that repeat.
const warnInterval = 500 * time.Millisecond

// warnings limits the log lines about failures that repeat. Guarded by Consumer.mu.
type warnings struct {
	last    time.Time // of the last line
	dropped int       // lines dropped since then
}

// warnRepeated logs a failure that is retried, unless there was such a line less than warnInterval
// ago. The next line has the number of the dropped ones.
func (c *Consumer) warnRepeated(what string, err error) {
	c.mu.Lock()
	now, w := time.Now(), &c.warnings
	if now.Sub(w.last) < warnInterval {
		w.dropped++
		c.mu.Unlock()
		return
	}
	dropped := w.dropped
	*w = warnings{last: now}
	c.mu.Unlock()
	c.cfg.Logger.Warn(what, "group", c.cfg.Group, "err", err, "lines_left_out", dropped)
}

// warn logs timeouts of a group member that are accepted but usually a mistake.
func (c *Config) warn() {
	if c.Group == "" {
		return
	}
	warn := func(what string) {
		c.Logger.Warn(what, "heartbeat_interval", c.HeartbeatInterval, "session_timeout", c.SessionTimeout,
			"max_poll_interval", c.MaxPollInterval, "group", c.Group)
	}
	if c.HeartbeatInterval > c.SessionTimeout/3 {
		warn("heartbeat interval above a third of the session timeout: one lost heartbeat may cost the membership")
	}
	if c.HeartbeatInterval < c.SessionTimeout/mostHeartbeats {
		warn("heartbeat interval below a hundredth of the session timeout: load on the coordinator that detects no death earlier")
	}
	if c.SessionTimeout > longSession {
		warn("session timeout above 2 minutes: a member that dies is noticed late, its partitions are not read until then")
	}
	if c.SessionTimeout < shortSession {
		warn("session timeout below 10 seconds: a short pause of the process or the network is taken for a death and rebalances the group")
	}
	if c.MaxPollInterval < c.SessionTimeout {
		warn("max poll interval below the session timeout: slow work is taken for a death sooner than silence, and rebalances the group")
	}
}
