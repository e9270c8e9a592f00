package sasl

import (
	"crypto/sha256"
	"time"
)

// Bounds of Pace.
const (
	paceBurst   = 10               // failures without a delay
	paceRemains = 10 * time.Minute // until a failure expires
	paceNames   = 4096             // names kept at a time
	paceWait    = 10 * time.Second // the longest wait of an attempt for earlier ones
)

// A Pace limits the rate of password attempts. After some failures of a name its attempts get one
// interval each, whether or not they succeed. A name combines a user and the origin of the
// attempts, so that a user cannot be locked out from elsewhere. It keeps hashes, since names may be
// of any length, and drops the oldest names first. The zero value is ready.
type Pace struct {
	names map[paceName]*attempts
	order []paceName // in the order of arrival; once full, a ring from next on
	next  int
}

type paceName [sha256.Size]byte

type attempts struct {
	failures int
	last     time.Time // time of the last failure
	free     time.Time // time at which the next attempt may begin
}

// Begin reserves the next slot for an attempt and returns the time until then. If that exceeds the
// longest wait, ok is false and no slot is reserved: a rejected attempt does not delay later ones.
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

// End records the result of an attempt. Only failures count. A success does not reset them:
// otherwise a client could try passwords of others between logins of its own.
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
