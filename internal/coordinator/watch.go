package coordinator

// Watch sends to ch, of capacity 1, whenever the machine with that id may have changed, until stop
// is called.
func (s *Shard[M, E, R]) Watch(id string, ch chan struct{}) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[id] == nil {
		s.watchers[id] = make(map[chan struct{}]struct{})
	}
	s.watchers[id][ch] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[id], ch)
		if len(s.watchers[id]) == 0 {
			delete(s.watchers, id)
		}
	}
}

// notifyLocked notifies the watchers of a machine, or of all if id is "", that it may have changed.
func (s *Shard[M, E, R]) notifyLocked(id string) {
	for watched, chans := range s.watchers {
		if id != "" && watched != id {
			continue
		}
		for ch := range chans {
			select {
			case ch <- struct{}{}:
			default: // the last notification is still in ch
			}
		}
	}
}
