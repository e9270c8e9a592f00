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
	next    *syncTurn // the next sync, for callers that arrived during the running one; nil if there are none
}

// syncTurn is one sync for all callers that wait for it.
type syncTurn struct {
	// lead is closed when the previous sync has ended: the caller that created the turn begins.
	lead chan struct{}
	done chan struct{} // closed when the sync has ended
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
	s.next = nil // later callers may have made changes that this sync misses
	s.mu.Unlock()
	t.err = fn()
	close(t.done)
	s.pass()
	return t.err
}

// pass lets the next turn begin, if a caller waits for it.
func (s *sharedSync) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next.lead)
	} else {
		s.running = false
	}
}
