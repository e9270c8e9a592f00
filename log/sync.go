package log

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/segment"
)

// endWaiter is somebody who waits for the end of a log to grow.
type endWaiter = watermark.Entry[chan struct{}]

// A syncer syncs the logs of a directory that ask for it, a few at once. Its goroutines are started when there is work and end with it.
type syncer struct {
	limit int
	wg    sync.WaitGroup
	busy  atomic.Int32 // goroutines

	mu    sync.Mutex // guards queue
	queue []*Log
}

// syncState is what a log's syncing is up to. Guarded by Log.mu.
type syncState struct {
	running bool // one sync at a time
	again   bool // something was written since it began
}

// idle reports whether nothing is being synced.
func (s *syncer) idle() bool { return s.busy.Load() == 0 }

// request has l synced soon.
func (s *syncer) request(l *Log) {
	l.mu.Lock()
	if l.syncs.running {
		l.syncs.again = true
		l.mu.Unlock()
		return
	}
	l.syncs.running = true
	l.mu.Unlock()
	s.push(l)
}

func (s *syncer) push(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, l)
	if int(s.busy.Load()) < s.limit {
		s.busy.Add(1)
		s.wg.Go(s.run)
	}
}

func (s *syncer) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.busy.Add(-1)
			s.mu.Unlock()
			return
		}
		l := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		l.sync()
	}
}

// sync makes what is written durable and completes who waits for that. The caller has set syncs.running.
func (l *Log) sync() {
	end, active := l.end.Load(), l.active() // in this order, and dirty last: what is below end is in one of them
	l.mu.Lock()
	l.syncs.again = false
	err := l.broken
	dirty := l.dirty
	l.dirty = nil
	l.mu.Unlock()
	if err == nil {
		err = syncAll(dirty, active)
		l.stats.syncs.Add(1)
	}
	if err != nil {
		err = l.breakWith(fmt.Errorf("log %s: %w", l.path, err))
	}
	l.finishSync(end, err)
}

func syncAll(dirty []*segment.Segment, active *segment.Segment) error {
	for _, s := range dirty {
		if err := s.SyncSealed(); err != nil {
			return err
		}
	}
	return active.Sync()
}

// finishSync completes the appends below end, or all of them with err.
func (l *Log) finishSync(end int64, err error) {
	var done []*Append
	l.mu.Lock()
	if err == nil {
		l.durable.Store(max(l.durable.Load(), end))
		done = l.unsynced.popBelow(end)
	} else {
		done = l.unsynced.popAll()
	}
	again := l.syncs.again && err == nil
	l.syncs = syncState{running: again}
	l.mu.Unlock()
	if owner := l.cfg.Load().Owner; owner != nil && err == nil {
		owner.Durable(end)
	}
	for _, a := range done {
		a.Err = err
		a.Done(a)
	}
	if again {
		l.dir.syncer.push(l)
	}
}

// breakWith makes the log read-only with a sticky error and returns it, or an earlier one.
func (l *Log) breakWith(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = err
		l.cfg.Load().Logger.Error("log is read-only until it is opened again", "path", l.path, "err", err)
	}
	return l.broken
}

// Sync returns when everything appended before the call is on stable storage. A failure is sticky: every later Sync and append returns it.
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
	end := l.end.Load()
	for {
		l.mu.Lock()
		if l.broken != nil {
			defer l.mu.Unlock()
			return l.broken
		}
		if l.durable.Load() >= end {
			l.mu.Unlock()
			return nil
		}
		if !l.syncs.running {
			l.syncs.running = true
			l.mu.Unlock()
			l.sync()
			continue
		}
		// One is under way: wait for it, or for the one after it.
		done := make(chan struct{})
		l.unsynced.push(&Append{LastOffset: end - 1, Done: func(*Append) { close(done) }})
		l.syncs.again = true
		l.mu.Unlock()
		<-done
	}
}

// armLocked starts the timer of SyncInterval.
func (l *Log) armLocked(cfg *Config) {
	d := cfg.Sync.Interval()
	if d == 0 || l.timer != nil || l.closing.Load() {
		return
	}
	l.wg.Add(1)
	l.timer = time.AfterFunc(d, func() {
		defer l.wg.Done()
		l.mu.Lock()
		l.timer = nil
		l.mu.Unlock()
		if err := l.syncNow(); err != nil && !errors.Is(err, ErrClosed) {
			l.cfg.Load().Logger.Warn("periodic sync failed", "path", l.path, "err", err) // sticky: every append says so too
		}
	})
}

// stopTimer ends the timer of SyncInterval.
func (l *Log) stopTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && l.timer.Stop() {
		l.wg.Done()
	}
	l.timer = nil
}

// An appendQueue holds appends in the order of their offsets, but for those of Sync.
type appendQueue struct {
	items []*Append
}

func (q *appendQueue) push(a *Append) { q.items = append(q.items, a) }

// popBelow takes out what ends below end.
func (q *appendQueue) popBelow(end int64) []*Append {
	n := 0
	for n < len(q.items) && q.items[n].LastOffset < end {
		n++
	}
	done := append([]*Append(nil), q.items[:n]...)
	rest := copy(q.items, q.items[n:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	return done
}

func (q *appendQueue) popAll() []*Append {
	done := q.items
	q.items = nil
	return done
}
