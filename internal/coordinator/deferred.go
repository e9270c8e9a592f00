package coordinator

import (
	"slices"
	"time"

	"github.com/stratalog/strata/internal/machine"
)

// A deferred event is one that its machine could not answer yet (machine.Reply.Later). Who asked
// for it still waits; if not, it is not fed again.
type deferred[E any] struct {
	ev E
	to machine.Ticket
	at time.Time // it is fed again no later than this
}

// feedDeferredLocked feeds e what it could not answer before, in the order in which it came. mu is
// not released between the step whose records this follows and this: the writer takes both at once.
//
// It ends: only a step with records leads here, and such a step has deferred nothing.
func (s *Shard[M, E, R]) feedDeferredLocked(e *entry[M, E], now time.Time) (notices []any) {
	waiting := e.deferred
	e.deferred = nil
	for _, d := range waiting {
		if s.calls[d.to] != nil {
			notices = append(notices, s.stepLocked(e, now, d.ev, d.to)...)
		}
	}
	return notices
}

// deferredUntil returns when the first of the deferred events is to be fed again; zero: there are
// none.
func (e *entry[M, E]) deferredUntil() (first time.Time) {
	if len(e.deferred) > 0 {
		first = slices.MinFunc(e.deferred, func(a, b deferred[E]) int { return a.at.Compare(b.at) }).at
	}
	return first
}
