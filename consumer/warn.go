package consumer

import "time"

// Bounds of settings without a warning.
const (
	shortSession = 10 * time.Second
	longSession  = 2 * time.Minute
	// mostHeartbeats is the largest number of heartbeats within a session timeout.
	mostHeartbeats = 100
)

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
