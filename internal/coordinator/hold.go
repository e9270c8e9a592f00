package coordinator

// Hold calls f while no machine takes a step, and no Shard is replaced. The log may receive
// accepted records meanwhile; its results are processed afterwards. f only computes, as steps do:
// it must not wait or call the Runtime.
func (r *Runtime[M, E, R]) Hold(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.Known() { // by partition; no other caller holds two of these locks
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	f()
}
