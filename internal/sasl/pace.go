package sasl

import (
	"crypto/sha256"
	"time"
)

// Bounds of Pace.
const (
	paceBurst   = 10               // failures are free
	paceRemains = 10 * time.Minute // until what somebody did is forgotten
	paceNames   = 4096             // are remembered at a time
	paceWait    = 10 * time.Second // at most does an attempt wait for those before it
)

// A Pace slows down who tries passwords: after some failures of one name, its attempts come one
// interval after the other, whether or not they succeed. A name is that of a user and where the
// attempts come from, so that nobody can lock out a user for others. The zero value remembers
// nobody. Of more names than it remembers it forgets those that came first, and of a name, which
// may be of any length, it has a hash.
type Pace struct {
	names map[paceName]*attempts
	order []paceName // in which names came, as a ring from next on once it is full
	next  int
}

type paceName [sha256.Size]byte

type attempts struct {
	failures int
	last     time.Time // when the last one failed
	free     time.Time // when the next attempt may begin
}

// Begin returns how long an attempt that comes now has to wait, and takes that place. One that
// would have to wait for long takes none: whoever is refused holds up nobody who comes later.
func (p *Pace) Begin(name string, now time.Time, interval time.Duration) (wait time.Duration, ok bool) {
	a := p.names[sha256.Sum256([]byte(name))]
	if a == nil {
		return 0, true
	}
	if now.Sub(a.last) > paceRemains {
		a.failures = 0
	}
	if a.failures < paceBurst {
		return 0, true
	}
	if a.free.Before(now) {
		a.free = now
	}
	if wait = a.free.Sub(now); wait > paceWait {
		return wait, false
	}
	a.free = a.free.Add(interval)
	return wait, true
}

// End says how an attempt went. Only failures count: who knows one password must not be able to
// try others between.
func (p *Pace) End(name string, now time.Time, failed bool) {
	if !failed {
		return
	}
	key := paceName(sha256.Sum256([]byte(name)))
	a := p.names[key]
	if a == nil {
		a = p.remember(key)
	}
	a.failures, a.last = min(a.failures+1, paceBurst), now
}

func (p *Pace) remember(name paceName) *attempts {
	if p.names == nil {
		p.names = map[paceName]*attempts{}
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
