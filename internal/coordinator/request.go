package coordinator

import (
	"context"
	"time"

	"github.com/stratalog/strata/internal/machine"
)

// A call is a request whose caller waits.
type call struct{ result chan result } // capacity 1

type result struct {
	value any
	err   error
}

// A Request is the argument of Do's begin function, which holds the shard's lock: it must only
// compute.
type Request[M machine.Machine[E, R], E, R any] struct {
	Now    time.Time
	Ticket machine.Ticket

	s       *Shard[M, E, R]
	notices []any
}

// Get returns the machine with that id, if it exists. It is valid until begin returns.
func (q *Request[M, E, R]) Get(id string) (m M, ok bool) {
	if e := q.s.entries[id]; e != nil {
		return e.m, true
	}
	return m, false
}

// Step steps the machine with that id, and creates it if there is none.
func (q *Request[M, E, R]) Step(id string, ev E) {
	q.notices = append(q.notices, q.s.stepLocked(q.s.entryLocked(id, q.Now), q.Now, ev, q.Ticket)...)
}

// Answer ends the request with a result that is not a machine's.
func (q *Request[M, E, R]) Answer(value any, err error) {
	if c := q.s.calls[q.Ticket]; c != nil {
		c.result <- result{value, err}
		delete(q.s.calls, q.Ticket)
	}
}

// AnswerCommitted ends the request with a value read from the machine with that id, which exists,
// once the records behind it are committed.
func (q *Request[M, E, R]) AnswerCommitted(id string, value any) {
	q.s.answerLocked(q.s.entries[id], machine.Reply{To: q.Ticket, Value: value})
}

// Do runs a request for the machine with that id: it calls begin once the shard is loaded, and
// returns the reply to the Request's ticket. If ctx is done first, the machine gets a Cancel event;
// records that were accepted stay.
func (s *Shard[M, E, R]) Do(ctx context.Context, id string, begin func(q *Request[M, E, R])) (any, error) {
	if err := s.lockLoaded(ctx); err != nil {
		return nil, err
	}
	s.lastTicket++
	q, c := Request[M, E, R]{Now: time.Now(), Ticket: s.lastTicket, s: s}, &call{result: make(chan result, 1)}
	s.calls[q.Ticket] = c
	begin(&q)
	s.mu.Unlock()
	s.notify(q.notices)

	select {
	case r := <-c.result:
		return r.value, r.err
	case <-ctx.Done():
	}
	var notices []any
	s.mu.Lock()
	select {
	case r := <-c.result: // both at once: the reply counts
		s.mu.Unlock()
		return r.value, r.err
	default:
	}
	delete(s.calls, q.Ticket)
	if e := s.entries[id]; e != nil && s.state == active {
		notices = s.stepLocked(e, time.Now(), s.r.kind.Cancel(q.Ticket), 0)
	}
	s.mu.Unlock()
	s.notify(notices)
	return nil, ctx.Err()
}

// Now steps a machine with an event that it replies to at once, with a Reply that is Now, and
// without records. found is false if the machine does not exist. loaded is false, and nothing
// happens, while the shard is not loaded. Now never waits.
func (s *Shard[M, E, R]) Now(id string, ev E) (reply machine.Reply, found, loaded bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case ended:
		return reply, false, false, s.over
	case unloaded:
		if s.mayLoadLocked() {
			s.startLoadLocked()
		}
		return reply, false, false, nil
	case loading:
		return reply, false, false, nil
	}
	e := s.entries[id]
	if e == nil {
		return reply, false, true, nil
	}
	eff := e.m.Step(time.Now(), ev)
	e.m.Accept()
	e.wakeAt = eff.WakeAt
	s.alarm.By(e.wakeAt)
	return eff.Replies[0], true, true, nil
}
