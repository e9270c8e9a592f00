package replication

import (
	"slices"
	"sync"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/follow"
)

// several has the additional state of a replica that is one of several.
type several struct {
	// Guarded by replica.mu:
	settling chan struct{} // closed when the settling goroutine finishes; nil if none is running
	again    bool          // the settling goroutine reads the metadata once more
	failed   error         // why it does not lead, although it is the leader in the metadata

	unfollowed error // why it does not follow, likewise

	// Owned by the settling goroutine:
	held   *partition.Partition // that was settled last
	epoch  int32                // leader epoch that it follows in; -1: it does not
	source int32                // the broker that it is copied from; 0: none

	// mu guards places: the followers to be woken. Replaced, never written to.
	mu     sync.Mutex
	places []*follow.Place
}

func (s *several) watch(p *follow.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = append(slices.Clone(s.places), p)
}

func (s *several) unwatch(p *follow.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = slices.DeleteFunc(slices.Clone(s.places), func(q *follow.Place) bool { return p == q })
}

// wake makes the followers fetch.
func (s *several) wake() {
	s.mu.Lock()
	places := s.places
	s.mu.Unlock()
	for _, p := range places {
		p.Wake()
	}
}

// several returns the state that r has as one of several replicas.
func (r *replica) several() *several {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.severalLocked()
}

func (r *replica) severalLocked() *several {
	if r.shared == nil {
		r.shared = &several{epoch: -1}
	}
	return r.shared
}

// hold makes p, which is open and not visible yet, the partition for settle.
func (r *replica) hold(p *partition.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = p
}

// partition returns the partition if it is open, visible or not.
func (r *replica) partition() *partition.Partition {
	if p := r.readable.Load(); p != nil {
		return p
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fresh
}
