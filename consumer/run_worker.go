package consumer

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A worker is a goroutine that calls the handler.
type worker struct {
	// Guarded by runner.mu. The worker writes these fields, and reads them without the lock.
	lane  *lane // nil: no call is running
	jobs  []job
	began time.Time
}

// work is the function of a worker's goroutine.
func (r *runner) work(w *worker) {
	defer r.c.beHelper()() // Close in a handler does not wait for it
	returned := false
	defer func() {
		if returned {
			r.leave()
			return
		}
		go func() { // the handler called runtime.Goexit: another goroutine continues the job
			r.conclude(w, 0, ErrHandlerExit)
			r.work(w)
		}()
	}()
	for r.begin(w) {
		done, err := r.call(w)
		r.conclude(w, done, err)
	}
	returned = true
}

// leave removes a worker from the count.
func (r *runner) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alive--; r.alive == 0 {
		close(r.left)
	}
}

// begin takes jobs for w, and waits until there are some. It returns false if Run has ended.
func (r *runner) begin(w *worker) bool {
	for {
		r.mu.Lock()
		if !r.endAt.IsZero() {
			r.mu.Unlock()
			return false
		}
		w.jobs, w.lane = r.lanes.take(w.jobs[:0], r.cfg.BatchSize)
		if w.lane != nil {
			w.began = time.Now()
			w.jobs[0].t.running++
			r.mu.Unlock()
			return true
		}
		r.mu.Unlock()
		select {
		case <-r.lanes.wake:
		case <-r.ended:
			return false
		}
	}
}

// finish ends the call of w: the jobs in done are completed, those in again go back to their lane.
func (r *runner) finish(w *worker, done, again []job, failed error) {
	t := w.jobs[0].t
	r.mu.Lock()
	for i := range done {
		r.doneLocked(t, done[i].seq)
	}
	wake := false
	if failed != nil && !t.closing && r.failed == nil {
		r.failed, wake = failed, true
		r.endLocked() // before its lane continues
	}
	if t.throttled && t.inFlight() <= r.cfg.MaxInFlight/2 {
		t.throttled, wake = false, true
	}
	l := w.lane
	l.state, w.lane = laneIdle, nil
	r.lanes.putBack(l, again)
	r.lanes.schedule(l)
	clear(w.jobs)
	if t.callDone(); t.running == 0 && t.obsolete {
		r.dropLocked(t)
	}
	r.mu.Unlock()
	r.c.progress.Add(1)
	if wake {
		r.c.mu.Lock()
		r.c.wakeLocked()
		r.c.mu.Unlock()
	}
}

// overdue reports whether a call has been active for d or longer.
func (r *runner) overdue(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.workers, func(w *worker) bool { return w.lane != nil && time.Since(w.began) >= d })
}

// stuckLocked returns an error with the records of active handlers, at most ten.
func (r *runner) stuckLocked() error {
	var stuck []string
	for _, w := range r.workers {
		if w.lane != nil {
			tp := w.jobs[0].t.p.tp
			stuck = append(stuck, fmt.Sprintf("%s-%d at offset %d", tp.Topic, tp.Partition, w.jobs[0].rec.Offset))
		}
	}
	if n := len(stuck); n > 10 {
		stuck = append(stuck[:10], fmt.Sprintf("%d more", n-10))
	}
	return fmt.Errorf("%w: %s", ErrDrainTimeout, strings.Join(stuck, ", "))
}
