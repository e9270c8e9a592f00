package log

import "sync"

// A sharedSync lets callers that need the same sync at the same time share it: thousands of logs
// that are made at once need the directory around them synced, once after each of them was made
// there.
//
// A caller is served by a sync that begins after its call, never by the one under way, which may
// have begun before the change that the caller wants to be durable. The zero sharedSync is ready.
type sharedSync struct {
	mu      sync.Mutex // guards the fields below; never held during a sync
	running bool
	next    *syncTurn // for who came while one was running; nil: nobody did
}

// syncTurn is one sync for all who wait for it.
type syncTurn struct {
	// lead is closed when the sync before it is over: the caller that made the turn begins.
	lead chan struct{}
	done chan struct{} // closed when it is over
	err  error         // set before done is closed
}

// do returns when a run of fn that began after the call has ended, with its error. fn must be the
// same for all callers.
func (s *sharedSync) do(fn func() error) error {
	s.mu.Lock()
	if !s.running {
		s.running = true
		s.mu.Unlock()
		err := fn()
		s.pass()
		return err
	}
	t := s.next
	if t != nil {
		s.mu.Unlock()
		<-t.done
		return t.err
	}
	t = &syncTurn{lead: make(chan struct{}), done: make(chan struct{})}
	s.next = t
	s.mu.Unlock()
	<-t.lead
	s.mu.Lock()
	s.next = nil // who comes from here on may have changed something that this sync misses
	s.mu.Unlock()
	t.err = fn()
	close(t.done)
	s.pass()
	return t.err
}

// pass lets the next turn begin, if somebody waits for it.
func (s *sharedSync) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next.lead)
	} else {
		s.running = false
	}
}
