package coordinator

import (
	"time"
)

// tick lets time pass for the machines whose time has come, or loads the shard again.
func (s *Shard[M, E, R]) tick() {
	s.mu.Lock()
	now := time.Now()
	if s.state == unloaded && s.mayLoadLocked() {
		s.startLoadLocked()
	}
	if s.state != active {
		s.mu.Unlock()
		return
	}
	var notices []any
	expire := !s.nextExpiry.IsZero() && !now.Before(s.nextExpiry)
	for _, e := range s.entries {
		if !e.wakeAt.IsZero() && !now.Before(e.wakeAt) {
			notices = append(notices, s.stepLocked(e, now, s.r.kind.Tick, 0)...)
		}
		if at := e.deferredUntil(); !at.IsZero() && !now.Before(at) {
			notices = append(notices, s.feedDeferredLocked(e, now)...)
		}
		if expire {
			notices = append(notices, s.stepLocked(e, now, s.r.kind.Expire, 0)...)
		}
	}
	if expire {
		s.nextExpiry = now.Add(s.r.cfg.ExpiryInterval)
	}
	s.rearmLocked(now)
	s.mu.Unlock()
	s.notify(notices)
}

// rearmLocked arms the alarm for what comes next; a shard without machines is not woken.
func (s *Shard[M, E, R]) rearmLocked(now time.Time) {
	if len(s.entries) == 0 {
		s.nextExpiry = time.Time{}
		return
	}
	if s.nextExpiry.IsZero() {
		s.nextExpiry = now.Add(s.r.cfg.ExpiryInterval)
	}
	next := s.nextExpiry
	for _, e := range s.entries {
		if !e.wakeAt.IsZero() && e.wakeAt.Before(next) {
			next = e.wakeAt
		}
		if at := e.deferredUntil(); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	s.alarm.By(next)
}
