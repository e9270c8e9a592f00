// Package alarm has a timer that can be armed, armed again, disarmed, stopped and waited for at any
// moment, also while it fires.
//
// time.AfterFunc leaves three problems to each of its users: a Stop that comes too late, a timer
// that is armed again while its function starts, and how Close waits for the function. An Alarm
// solves them once.
package alarm

import (
	"sync"
	"time"
)

// An Alarm calls its function at the time it is armed for, on its own goroutine and without locks.
// The zero Alarm with Do set is ready. It must not be copied after first use, and is safe for
// concurrent use.
//
// Only the fields at and armed determine whether the function is due; the timer only checks them in
// time. If it fires while the Alarm is disarmed, or armed for later, nothing happens. So a late
// stop of the timer does no harm. Calls of Do never overlap.
type Alarm struct {
	Do func() // set before first use, and not changed afterwards

	mu        sync.Mutex // guards the fields below; never held while Do runs
	stopped   bool       // for good
	*schedule            // nil until first armed: most Alarms never are
}

// schedule is the state of an Alarm that was armed.
type schedule struct {
	timer   *time.Timer // nil until woken for the first time
	at      time.Time   // when Do is due, if armed
	armed   bool
	calling bool           // a goroutine is in Do; it checks at and armed again when Do returns
	firings sync.WaitGroup // pending and running firings; incremented under mu unless stopped
}

// By arms the Alarm for t, unless it is armed for an earlier time. A t in the past means at once.
// It returns false if the Alarm is stopped.
func (a *Alarm) By(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	if a.schedule == nil || !a.armed || t.Before(a.at) {
		a.setLocked(t)
	}
	return true
}

// After arms the Alarm for the time d from now, unless it is armed already, for any time. It
// returns false if the Alarm is stopped.
func (a *Alarm) After(d time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	if a.schedule == nil || !a.armed {
		a.setLocked(time.Now().Add(d))
	}
	return true
}

func (a *Alarm) setLocked(t time.Time) {
	if a.schedule == nil {
		a.schedule = new(schedule)
	}
	a.at, a.armed = t, true
	if !a.calling { // otherwise the goroutine in Do checks again when Do returns
		a.wakeLocked()
	}
}

// wakeLocked sets the timer to a.at.
func (a *Alarm) wakeLocked() {
	wait := max(time.Until(a.at), 0)
	switch {
	case a.timer == nil:
		a.firings.Add(1)
		a.timer = time.AfterFunc(wait, a.fire)
	case !a.timer.Reset(wait):
		// the last firing has begun, has ended or was stopped: this is another one
		a.firings.Add(1)
	}
}

func (a *Alarm) fire() {
	defer a.firings.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.armed && !a.calling {
		if time.Now().Before(a.at) { // armed again since the timer fired
			a.wakeLocked()
			return
		}
		a.armed, a.calling = false, true
		a.mu.Unlock()
		a.Do()
		a.mu.Lock()
		a.calling = false
	}
}

// Disarm cancels the last By or After, unless Do was called for it. A running call continues. The
// Alarm can be armed again.
func (a *Alarm) Disarm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.disarmLocked()
}

func (a *Alarm) disarmLocked() {
	if a.schedule == nil {
		return
	}
	a.armed = false
	if a.timer != nil && a.timer.Stop() {
		a.firings.Done()
	}
}

// Stop disarms the Alarm for good: By and After have no effect any more. It does not wait, so it
// may be called with locks that Do takes, and by Do itself.
func (a *Alarm) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.disarmLocked()
}

// Wait waits until no call of Do is running and none can follow. Call it after Stop, without locks
// that Do takes, and not from Do.
func (a *Alarm) Wait() {
	a.mu.Lock()
	s := a.schedule
	a.mu.Unlock()
	if s != nil {
		s.firings.Wait()
	}
}

// Armed reports whether a call of Do is due in the future.
func (a *Alarm) Armed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.schedule != nil && a.armed
}
