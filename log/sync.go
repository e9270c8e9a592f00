package log

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/segment"
)

// A job is something a worker of the syncer does for a log.
type job struct {
	log *Log
	do  func(*Log)
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
		j.do(j.log)
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

// leadThere leads a round on a worker. With the turn.
func (l *Log) leadThere() {
	before := l.roundSize
	var blocking bool
	if l.roundSize, blocking = l.round(); blocking || max(before, l.roundSize) > 1 {
		// Those who were just let go run first, so that what they append next makes one round and not two, and is led by a worker and not by each of
		// them. A log that is handed one append at a time has nothing to gain: and where all processors are in syncs of other logs, coming back
		// takes as long as a sync.
		runtime.Gosched()
	}
	if l.passTurn() {
		l.dir.syncer.add(job{l, (*Log).leadThere})
	}
}

// durableTo records that everything below end is on stable storage, and tells it, unless the log was cut since cuts was read.
func (l *Log) durableTo(end, cuts int64) {
	l.mu.Lock()
	ok := l.cuts.Load() == cuts && end > l.durable.Load()
	if ok {
		l.durable.Store(end)
	}
	l.mu.Unlock()
	if !ok {
		return
	}
	if owner := l.cfg.Load().Owner; owner != nil {
		owner.Durable(end)
	}
	l.wake()
}

// Sync returns when everything appended before the call is on stable storage. Appends go on meanwhile. A failure is sticky: every later Sync
// and append returns it.
func (l *Log) Sync() error {
	if l.readOnly {
		return ErrReadOnly
	}
	if l.closing.Load() {
		return ErrClosed
	}
	return l.syncNow()
}

// syncNow is Sync, also for a log that is being closed.
func (l *Log) syncNow() error {
	l.syncing.take()
	defer l.syncing.give()
	l.mu.Lock()
	cuts := l.cuts.Load()
	end := l.end.Load() // after cuts, or it could be that of before a truncation; before the segments, or a roll could put its end behind them
	dirty, active, err := l.dirty, l.active(), l.broken
	done := l.durable.Load() >= end
	l.mu.Unlock()
	if err != nil || done {
		return err
	}
	l.syncs.Add(1)
	for _, s := range dirty {
		if err := l.syncClosed(s); err != nil {
			return err
		}
	}
	if err := active.Sync(); err != nil {
		return l.breakWith(fmt.Errorf("sync %s: %w", l.path, err))
	}
	l.durableTo(end, cuts)
	return nil
}

// syncDirty syncs closed segments in the background, which is what a roll leaves to do under SyncNever and SyncInterval.
func (l *Log) syncDirty() {
	defer l.wg.Done()
	l.syncing.take()
	defer l.syncing.give()
	l.mu.Lock()
	cuts, dirty, broken := l.cuts.Load(), l.dirty, l.broken
	l.mu.Unlock()
	for _, s := range dirty {
		if broken != nil {
			return
		}
		end := s.NextOffset() // before the sync: a truncation can have made the segment active again
		if l.syncClosed(s) != nil {
			return // every append says so
		}
		l.durableTo(end, cuts)
	}
}

// syncClosed syncs a closed segment. One that was removed or cut meanwhile is not asked for any more.
func (l *Log) syncClosed(s *segment.Segment) error {
	err := s.SyncSealed()
	l.mu.Lock()
	asked := slices.Contains(l.dirty, s) && slices.Contains(l.list(), s)
	l.mu.Unlock()
	if err != nil && asked {
		return l.breakWith(fmt.Errorf("sync %s: %w", l.path, err))
	}
	l.forget(s)
	return nil
}

// breakWith makes the log read-only with a sticky error and returns it, or an earlier one.
func (l *Log) breakWith(err error) error {
	l.mu.Lock()
	first := l.broken == nil
	if first {
		l.broken = err
	}
	err = l.broken
	l.mu.Unlock()
	if first {
		l.cfg.Load().Logger.Error("log is read-only until it is opened again", "path", l.path, "err", err)
		l.noteSuspect()
	}
	return err
}

// armSync starts the timer of SyncInterval, if it is not running. With the turn.
func (l *Log) armSync(cfg *Config) {
	if d := cfg.Sync.Interval(); d > 0 {
		l.intervalAlarm.After(d)
	}
}

func (l *Log) syncDue() {
	if err := l.syncNow(); err != nil {
		l.cfg.Load().Logger.Warn("periodic sync failed", "path", l.path, "err", err) // sticky: every append says so too
	}
}

// idleAfter is how long a log is not written to before its preallocated space is given back and its file closed.
const idleAfter = 10 * time.Second

// armIdle has the log tidied up when nothing is written any more. With the turn.
func (l *Log) armIdle(cfg *Config) {
	if cfg.Sync == SyncOnAck {
		l.idleAlarm.After(idleAfter)
	}
}

// rest gives back what only a busy log needs, or looks again later if the log was written to in the meantime.
func (l *Log) rest() {
	if err := l.takeTurn(); err != nil {
		return
	}
	cfg, rounds := l.cfg.Load(), l.Stats().Rounds
	switch {
	case rounds != l.restedAt:
		l.restedAt = rounds
		l.armIdle(cfg)
	case l.durable.Load() == l.end.Load():
		if err := l.active().TrimTail(); err != nil {
			cfg.Logger.Warn("preallocated space was not given back", "path", l.path, "err", err)
		}
	}
	l.giveTurn()
}
