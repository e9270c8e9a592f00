package coordinator

// Hold calls f while no machine takes a step: no request, tick or answer of a log is looked at, and
// no Shard is put in place of another. Records that were accepted before may reach the log
// meanwhile, and those that wait for the log are told afterwards. f only computes, as steps do: it
// must not wait, nor ask the Runtime for anything.
func (r *Runtime[M, E, R]) Hold(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.Known() { // by partition; nobody else has two of these locks
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	f()
}
