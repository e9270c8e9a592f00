package log

import (
	"runtime"
	"sync"
)

// A job is something a worker of the syncer does for a log: one of the two is set.
type job struct {
	lead   *writer // lead a round; the log's token comes with it
	closed *Log    // sync the segments that were closed
}

// A syncer does the syncing of a directory's logs, and the writing of those that are busy: rounds over all dirty logs. Its workers, at
// most limit, are started when they are needed and wait for more work then. A lone appender syncs by itself and meets none of them.
type syncer struct {
	limit int // syncs at once, including those of appenders
	wg    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	idle    sync.Cond  // workers without work wait here
	queue   []job      // first come, first served
	inline  int        // appenders that sync by themselves
	workers int
	waiting int
	closed  bool
}

// enter lets an appender sync by itself, if no log waits for a worker and few enough syncs are running. leave must follow.
func (s *syncer) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 || s.inline+s.workers-s.waiting >= s.limit {
		return false
	}
	s.inline++
	return true
}

func (s *syncer) leave() {
	s.mu.Lock()
	s.inline--
	s.mu.Unlock()
}

// add queues a job. It must not come after stop.
func (s *syncer) add(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, j)
	switch {
	case len(s.queue) <= s.waiting: // those that were signalled before and did not run yet are in both
		s.idle.Signal()
	case s.workers < s.limit:
		s.workers++
		s.wg.Go(s.work)
	}
}

// next waits for a job; ok is false when there will be none.
func (s *syncer) next() (j job, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 {
		if s.closed {
			s.workers--
			return job{}, false
		}
		s.waiting++
		s.idle.Wait()
		s.waiting--
	}
	j = s.queue[0]
	n := copy(s.queue, s.queue[1:]) // as short as there are busy logs
	s.queue[n] = job{}
	s.queue = s.queue[:n]
	return j, true
}

func (s *syncer) work() {
	for {
		j, ok := s.next()
		if !ok {
			return
		}
		if j.lead != nil {
			j.lead.leadOnWorker()
		} else {
			j.closed.syncDirty()
		}
	}
}

// stop ends the workers when the queue is empty.
func (s *syncer) stop() {
	s.mu.Lock()
	s.closed = true
	s.idle.Broadcast()
	s.mu.Unlock()
	s.wg.Wait()
}

// leadOnWorker leads a round on a worker, and gives the token up.
func (w *writer) leadOnWorker() {
	r := rounds.Get().(*round)
	w.takeQueued(r)
	before, blocking := w.roundSize, r.blocking()
	w.roundSize = len(r.all)
	w.run(r)
	r.put()
	if blocking || max(before, w.roundSize) > 1 {
		// Those who were just let go run first, so that what they append next makes one round and not two, and is led by a worker and not by
		// each of them. A log that is handed one append at a time has nothing to gain: and where all processors are in syncs of other logs,
		// coming back takes as long as a sync.
		runtime.Gosched()
	}
	w.release()
}
