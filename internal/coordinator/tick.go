package coordinator

import (
	"time"
)

// A tick that is late by lateTick means that the process was stopped (SIGSTOP, a frozen container,
// a virtual machine that is copied), or had no processor. So were its members in this process, and
// requests in its sockets.
const lateTick = time.Second

// lateGrace is the time that members have to send a heartbeat after a late tick, before sessions
// and other deadlines of machines end.
const lateGrace = 5 * time.Second

// graceLocked reports whether to hide the time from the machines because this tick is late. After a
// grace period they get it, even if the next tick is late too.
func (s *Shard[M, E, R]) graceLocked(now time.Time) bool {
	if !s.graceUntil.IsZero() {
		if now.Before(s.graceUntil) {
			return true
		}
		s.graceUntil = time.Time{}
		return false
	}
	for _, e := range s.entries {
		if !e.wakeAt.IsZero() && now.Sub(e.wakeAt) >= lateTick {
			s.graceUntil = now.Add(lateGrace)
			s.logger.Warn("deadlines are postponed, as the process was stopped or has no processor", "late", now.Sub(e.wakeAt), "by", lateGrace)
			return true
		}
	}
	return false
}

// tick steps the machines whose time has come, or retries a failed load.
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
	grace := s.graceLocked(now)
	expire := !s.nextExpiry.IsZero() && !now.Before(s.nextExpiry)
	for _, e := range s.entries {
		if !grace && !e.wakeAt.IsZero() && !now.Before(e.wakeAt) {
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

// rearmLocked sets the alarm to the next deadline; a shard without machines needs none.
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
		at := e.wakeAt
		if !at.IsZero() && at.Before(s.graceUntil) {
			at = s.graceUntil
		}
		if !at.IsZero() && at.Before(next) {
			next = at
		}
		if at := e.deferredUntil(); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	s.alarm.By(next)
}
