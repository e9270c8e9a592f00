package log

import (
	"runtime"
	"slices"
	"sync"
)

// A job is something a worker of the syncer does: one of the fields is set.
type job struct {
	lead   *writer // lead a round of the log; its token comes with the job
	finish *round  // sync and complete a round that is written; likewise
	closed *Log    // sync the segments that were closed
	upkeep func()  // of the journal
}

// shares reports whether the job is a round that may become durable together with other logs'
// rounds.
func (j *job) shares() bool { return j.lead != nil && j.lead.log.shares() }

// A syncer syncs a directory's logs, and writes the busy ones in rounds over all dirty logs. Its
// workers, at most limit, are started when they are needed and then wait for more work. A lone
// appender syncs by itself without them.
//
// While few logs are busy, each is synced by itself. When more are, one worker leads the rounds of
// all waiting logs, which share one sync of the journal; later appends wait for the next one.
type syncer struct {
	limit   int // syncs at once, including those of appenders
	journal journaling
	wg      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	idle   sync.Cond  // workers without work wait here
	queue  []job      // first come, first served
	inline int        // appenders that sync by themselves, between enter and leave
	// unshared counts the workers that lead a round of one log that could have shared a sync.
	unshared int
	sharing  bool // a worker leads shared rounds: all jobs of that kind are for it
	// seenBusy is the number of times that a journal was missing although it would have helped.
	seenBusy int
	recent   recentLogs // whose rounds were the last ones
	workers  int        // there are, waiting included
	waiting  int        // in idle
	closed   bool       // by stop: workers end when the queue is empty
}

// enter lets an appender to l sync by itself, if no log waits for a worker and few enough syncs are
// running. leave must follow.
func (s *syncer) enter(l *Log) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 || s.sharing || s.inline+s.workers-s.waiting >= s.limit || s.manyBusyLocked(1) && s.journal.ready() {
		return false
	}
	s.noteBusyLocked(1)
	s.recent.add(l)
	s.inline++
	return true
}

func (s *syncer) leave() {
	s.mu.Lock()
	s.inline--
	s.mu.Unlock()
}

// ledUnshared is called by a worker at the end of a round that did not share, before it passes the
// token on.
func (s *syncer) ledUnshared() {
	s.mu.Lock()
	s.unshared--
	s.mu.Unlock()
}

// manyBusyLocked reports whether so many logs are busy, with n that wait, that they should share a
// sync.
//
// Logs that sync by themselves can hide each other. A sync holds the processor of its goroutine for
// a while, and an appender that was completed by the previous sync, and is about to append again,
// waits for that processor. With two processors at most two logs are visible at a time, however
// many take turns. So if only one log is missing, the logs of the last rounds count. A single
// appender that writes to many logs in turn is always alone, and syncs by itself.
func (s *syncer) manyBusyLocked(n int) bool {
	n += s.inline + s.unshared
	need := s.journal.busyLogs
	return n >= need || n == need-1 && s.recent.distinct() >= need
}

// add queues a job. It must not come after stop.
func (s *syncer) add(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, j)
	if j.shares() {
		if s.sharing { // the leader of the shared rounds checks the queue again before it ends
			return
		}
		s.noteBusyLocked(s.waitingToShareLocked())
	}
	s.callWorkerLocked()
}

// noteBusyLocked has the journal created if it would often enough have helped the n waiting logs
// and the logs that sync.
func (s *syncer) noteBusyLocked(n int) {
	if !s.manyBusyLocked(n) || !s.journal.wanted() {
		return
	}
	if s.seenBusy++; s.seenBusy >= s.journal.busyTimes && s.journal.begin() {
		s.queue = append(s.queue, job{upkeep: s.journal.make})
		s.callWorkerLocked()
	}
}

// recentLogs is the names of the logs of the last few rounds, "" where there was none.
type recentLogs struct {
	names [8]string
	next  int
}

func (r *recentLogs) add(l *Log) {
	r.names[r.next] = l.name
	r.next = (r.next + 1) % len(r.names)
}

// distinct returns how many logs there are.
func (r *recentLogs) distinct() (n int) {
	for i, name := range r.names {
		if name != "" && !slices.Contains(r.names[:i], name) {
			n++
		}
	}
	return n
}

// callWorkerLocked sees that the queue is looked at.
func (s *syncer) callWorkerLocked() {
	switch {
	case len(s.queue) <= s.waiting:
		// Workers that were signalled before and did not run yet are in waiting, and their jobs in
		// queue.
		s.idle.Signal()
	case s.workers < s.limit:
		s.workers++
		s.wg.Go(s.work)
	}
}

func (s *syncer) waitingToShareLocked() (n int) {
	for i := range s.queue {
		if s.queue[i].shares() {
			n++
		}
	}
	return n
}

// A task is a worker's next work: a job, or rounds of several logs that share a sync.
type task struct {
	job
	counted bool // job.lead is counted in syncer.unshared
	shared  []*writer
}

// next waits for a task; ok is false when there will be none.
func (s *syncer) next() (t task, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if t, ok = s.takeLocked(); ok {
			return t, true
		}
		if s.closed {
			s.workers--
			return t, false
		}
		s.waiting++
		s.idle.Wait()
		s.waiting--
	}
}

// takeLocked removes a task from the queue and returns it, if a worker may take one.
func (s *syncer) takeLocked() (t task, ok bool) {
	if ws := s.takeSharersLocked(nil); ws != nil {
		s.sharing = true
		return task{shared: ws}, true
	}
	i := slices.IndexFunc(s.queue, func(j job) bool { return !s.sharing || !j.shares() })
	if i < 0 {
		return t, false
	}
	t.job = s.queue[i]
	if t.counted = t.shares(); t.counted {
		s.unshared++
		s.recent.add(t.lead.log)
	}
	s.queue = slices.Delete(s.queue, i, i+1) // as short as there are busy logs
	return t, true
}

// takeSharersLocked removes all rounds that can share a sync from the queue and appends their
// writers to ws. It returns nil, and removes none, if each should sync by itself, or if another
// worker leads the shared rounds.
func (s *syncer) takeSharersLocked(ws []*writer) []*writer {
	n := s.waitingToShareLocked()
	if n == 0 || s.sharing || !s.manyBusyLocked(n) || !s.journal.ready() {
		return nil
	}
	s.queue = slices.DeleteFunc(s.queue, func(j job) bool {
		if j.shares() {
			s.recent.add(j.lead.log)
			ws = append(ws, j.lead)
			return true
		}
		return false
	})
	return ws
}

func (s *syncer) work() {
	for {
		t, ok := s.next()
		switch {
		case !ok:
			return
		case t.shared != nil:
			s.leadShared(t.shared)
		case t.lead != nil:
			t.lead.leadOnWorker(t.counted)
		case t.finish != nil:
			t.finish.syncAndComplete()
		case t.closed != nil:
			t.closed.syncDirty()
		default:
			t.upkeep()
		}
	}
}

// leadShared leads rounds that share syncs, as long as there are enough logs that wait for one.
func (s *syncer) leadShared(ws []*writer) {
	for ws != nil {
		s.journal.lead(ws)
		ws = s.nextShared(ws[:0])
	}
}

// nextShared returns the writers of the next shared round; nil if there is none: then each log
// syncs by itself again.
func (s *syncer) nextShared(ws []*writer) []*writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sharing = false
	if ws = s.takeSharersLocked(ws); ws != nil {
		s.sharing = true
		return ws
	}
	// No worker was called for jobs that arrived in the meantime. This worker takes one of them.
	for range s.queue {
		s.callWorkerLocked()
	}
	return nil
}

// stop ends the workers when the queue is empty.
func (s *syncer) stop() {
	s.mu.Lock()
	s.closed = true
	s.idle.Broadcast()
	s.mu.Unlock()
	s.wg.Wait()
}

// leadOnWorker leads a round on a worker, and releases the token. counted means that it could have
// shared: see task.
func (w *writer) leadOnWorker(counted bool) {
	r := rounds.Get().(*round)
	w.takeQueued(r)
	before, blocking := w.roundSize, r.blocking()
	w.roundSize = len(r.all)
	w.run(r)
	r.put()
	if counted {
		w.log.dir.syncer.ledUnshared()
	}
	if blocking || max(before, w.roundSize) > 1 {
		// Appenders that were just completed run first, so that their next appends make one round
		// and not two, led by a worker and not by each of them. A log with one append at a time
		// does not gain from that: where all processors are in syncs of other logs, being scheduled
		// again takes as long as a sync.
		runtime.Gosched()
	}
	w.release()
}
