package coordinator

import (
	"slices"
	"time"

	"github.com/stratalog/strata/internal/machine"
)

// A deferred event is one that its machine could not answer yet (machine.Reply.Later). It is
// stepped again only while its caller still waits.
type deferred[E any] struct {
	ev E
	to machine.Ticket
	at time.Time // the latest time to step it again
}

// feedDeferredLocked steps the deferred events of e again, in order. It runs after a step with
// records, without releasing mu between: the writer takes the records of both at once.
//
// It terminates: only a step with records leads here, and such a step defers nothing.
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

// deferredUntil returns the earliest time to step a deferred event again; zero if there are none.
func (e *entry[M, E]) deferredUntil() (first time.Time) {
	if len(e.deferred) > 0 {
		first = slices.MinFunc(e.deferred, func(a, b deferred[E]) int { return a.at.Compare(b.at) }).at
	}
	return first
}
