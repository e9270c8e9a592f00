package sasl

import "time"

// Bounds of Pace.
const (
	paceBurst   = 10               // failures are free
	paceRemains = 10 * time.Minute // until what somebody did is forgotten
	paceNames   = 4096             // are remembered at a time
)

// A Pace slows down who tries passwords: after some failures of one name, its attempts come one
// interval after the other, whether or not they succeed. A name is that of a user and where the
// attempts come from, so that nobody can lock out a user for others. The zero value remembers
// nobody. Of more names than it remembers it forgets those that came first.
type Pace struct {
	names map[string]*attempts
	order []string // in which names came, as a ring from next on once it is full
	next  int
}

type attempts struct {
	failures int
	last     time.Time // when the last one failed
	free     time.Time // when the next attempt may begin
}

// Begin returns how long an attempt that comes now has to wait, and takes that place.
func (p *Pace) Begin(name string, now time.Time, interval time.Duration) time.Duration {
	a := p.names[name]
	if a == nil {
		return 0
	}
	if now.Sub(a.last) > paceRemains {
		a.failures = 0
	}
	if a.failures < paceBurst {
		return 0
	}
	if a.free.Before(now) {
		a.free = now
	}
	wait := a.free.Sub(now)
	a.free = a.free.Add(interval)
	return wait
}

// End says how an attempt went. Only failures count: who knows one password must not be able to
// try others between.
func (p *Pace) End(name string, now time.Time, failed bool) {
	if !failed {
		return
	}
	a := p.names[name]
	if a == nil {
		a = p.remember(name)
	}
	a.failures, a.last = min(a.failures+1, paceBurst), now
}

func (p *Pace) remember(name string) *attempts {
	if p.names == nil {
		p.names = map[string]*attempts{}
	}
	if len(p.order) < paceNames {
		p.order = append(p.order, name)
	} else {
		delete(p.names, p.order[p.next])
		p.order[p.next] = name
		p.next = (p.next + 1) % paceNames
	}
	a := &attempts{}
	p.names[name] = a
	return a
}
