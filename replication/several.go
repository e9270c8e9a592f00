package replication

import (
	"slices"
	"sync"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/follow"
)

// several is what a replica has that is one of several.
type several struct {
	// Guarded by replica.mu:
	settling chan struct{} // closed when who settles is through; nil: nobody does
	again    bool          // who settles looks at the metadata once more
	failed   error         // why it does not lead, though the metadata says so

	// Of who settles:
	held   *partition.Partition // that was settled last
	epoch  int32                // leader epoch that it follows in; -1: it does not
	source int32                // whom it is copied from; 0: nobody

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

// wake has the followers ask what is new.
func (s *several) wake() {
	s.mu.Lock()
	places := s.places
	s.mu.Unlock()
	for _, p := range places {
		p.Wake()
	}
}

// several returns what r has as one of several replicas.
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

// hold makes p, which is open and that nobody finds yet, the partition that settle is about.
func (r *replica) hold(p *partition.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = p
}

// partition returns the partition if it is open, also if nobody finds it yet.
func (r *replica) partition() *partition.Partition {
	if p := r.readable.Load(); p != nil {
		return p
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fresh
}
