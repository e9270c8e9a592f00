package follow

import (
	"log/slog"
	"slices"
	"time"
)

// outcome is the result of a partition's turn.
type outcome struct {
	err    error
	awaits bool // the leader wakes the place when the cause of err has ended
	again  bool // without an error: fetch again at once
	bytes  int  // number of bytes that are not in flight any more

	// without an error, unless again is set: time of the next fetch; zero means no limit
	heldUntil time.Time
}

// done ends a partition's turn.
func (f *Fetcher) done(p *Place, o outcome) {
	f.mu.Lock()
	if f.inFlight -= o.bytes; o.bytes > 0 {
		f.wakeUp()
	}
	failures := 0
	if p.phase != gone {
		failures = f.endTurnLocked(p, o)
	}
	f.mu.Unlock()
	if failures == toldAt && f.cfg.Logger != nil && !o.awaits {
		f.cfg.Logger.Warn("partition cannot be copied from its leader", slog.String("topic", p.Partition.Topic), slog.Int("partition", int(p.Partition.Partition)),
			slog.Int("broker", int(f.cfg.Broker)), slog.Int("leader", int(f.cfg.Leader)), slog.Any("err", o.err))
	}
}

// toldAt is the number of failures in a row after which a warning is logged.
const toldAt = 5

// endTurnLocked returns the number of failures of the partition in a row.
func (f *Fetcher) endTurnLocked(p *Place, o outcome) (failures int) {
	switch {
	case o.err == nil && !o.again && !p.letGo && !o.heldUntil.IsZero():
		p.failures = 0
		f.holdLocked(p, o.heldUntil)
		return 0
	case o.err == nil:
		p.failures = 0
		if p.phase = idle; o.again || p.letGo || p.woken.Load() {
			f.pushLocked(p)
		}
		return 0
	case o.awaits && p.woken.Load():
		f.pushLocked(p)
		return 0
	}
	wait := min(firstRetry<<min(p.failures, 10), maxRetry)
	p.failures++
	f.lateLocked(p, time.Now().Add(wait))
	p.awaits = o.awaits
	return p.failures
}

// holdLocked makes a partition wait for a quota. New records of its leader do not wake it.
func (f *Fetcher) holdLocked(p *Place, until time.Time) {
	f.lateLocked(p, until)
	p.held = true
}

func (f *Fetcher) lateLocked(p *Place, until time.Time) {
	p.told = untold
	p.phase, p.awaits, p.held, p.retryAt = late, false, false, until
	f.late = append(f.late, p)
	f.retry.By(until)
}

func (f *Fetcher) notLateLocked(p *Place) {
	f.late = slices.DeleteFunc(f.late, func(q *Place) bool { return q == p })
}

// lateAgain makes the partitions ready whose retryAt has passed.
func (f *Fetcher) lateAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var next time.Time
	f.late = slices.DeleteFunc(f.late, func(p *Place) bool {
		if due := !now.Before(p.retryAt); due {
			f.pushLocked(p)
			return true
		}
		if next.IsZero() || p.retryAt.Before(next) {
			next = p.retryAt
		}
		return false
	})
	if !next.IsZero() {
		f.retry.By(next)
	}
}

func (f *Fetcher) pushLocked(p *Place) {
	p.phase = ready
	p.woken.Store(true)
	f.ready = append(f.ready, p)
	f.wakeUp()
}

func (f *Fetcher) wakeUp() {
	select {
	case f.signal <- struct{}{}:
	default:
	}
}
