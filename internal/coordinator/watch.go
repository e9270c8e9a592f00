package coordinator

// Watch has ch, of capacity 1, filled whenever the machine of that id may have changed, until stop
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

// notifyLocked tells those who watch a machine, "" all of them, that it may have changed.
func (s *Shard[M, E, R]) notifyLocked(id string) {
	for watched, chans := range s.watchers {
		if id != "" && watched != id {
			continue
		}
		for ch := range chans {
			select {
			case ch <- struct{}{}:
			default: // it has not looked since the last time
			}
		}
	}
}
