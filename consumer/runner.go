package consumer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata/record"
)

// A runner is one Run at work. The polling goroutine feeds it; workers call the handler; one more
// goroutine waits for records that are not due yet.
type runner struct {
	c           *Consumer
	cfg         RunConfig
	handle      Handler      // nil: handleBatch
	handleBatch BatchHandler // nil: handle

	ctx    context.Context // Run's; it may have ended a moment before end is called
	values context.Context // Run's, without its cancellation: parent of the handlers' contexts
	ended  chan struct{}   // closed by end: no call begins any more
	left   chan struct{}   // closed when the last worker has left
	hurry  chan struct{}   // closed when Shutdown's context has ended: DrainTimeout is over
	wg     sync.WaitGroup  // the timekeeper, and who watches a hand-over
	buf    []record.Record // of feed

	mu      sync.Mutex // guards the fields below; taken after Consumer.mu
	lanes   lanes
	workers []*worker
	alive   int              // workers that have not left
	tracks  map[*part]*track // what is fed, by partition
	live    map[*track]bool  // all with calls running or jobs waiting, also of former positions
	failed  error            // ends Run
	endAt   time.Time        // zero: not ended; else when Run returns at the latest
}

// A worker is a goroutine that calls the handler.
type worker struct {
	// Guarded by runner.mu, but read without it by the worker, which writes them.
	lane  *lane // nil: no call is running
	jobs  []job
	began time.Time
}

// start starts the goroutines. stop must follow.
func (r *runner) start(ctx context.Context, c *Consumer) {
	r.c, r.ctx, r.values, r.alive = c, ctx, context.WithoutCancel(ctx), r.cfg.Workers
	r.ended, r.left, r.hurry = make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.lanes = newLanes(r.cfg.Order, r.cfg.Workers)
	r.tracks, r.live = map[*part]*track{}, map[*track]bool{}
	for range r.cfg.Workers {
		w := &worker{}
		r.workers = append(r.workers, w)
		go r.work(w) // stop waits for left
	}
	r.wg.Go(r.keepTime)
}

// dispatch feeds the workers until something ends Run.
func (r *runner) dispatch(ctx context.Context) error {
	for {
		p, err := r.c.next(ctx)
		if err != nil {
			if isFinal(err) && !r.c.isFatal(err) && r.err() == nil {
				r.c.cfg.Logger.Error("partition cannot be read, going on without it", "err", err)
				continue
			}
			return err
		}
		if err := r.feed(p); err != nil {
			r.c.cfg.Logger.Error("partition cannot be read, going on without it", "err", err)
		}
	}
}

// feed hands out what is fetched of p, up to MaxInFlight.
func (r *runner) feed(p *part) error {
	t, room := r.trackOf(p)
	p.chunk.keepBytes()
	rs := r.buf[:0]
	var failed error
	for more := true; more && len(rs) < room; {
		var rec record.Record
		if more, failed = p.chunk.record(p.tp, &rec); more {
			rs = append(rs, rec)
		}
	}
	if len(rs) > 0 {
		t.d.position.Store(rs[len(rs)-1].Offset + 1)
		r.c.records.Add(int64(len(rs)))
		r.push(t, rs)
	}
	clear(rs)
	r.buf = rs[:0]
	switch {
	case failed != nil:
		return r.c.damaged(p, failed)
	case !p.chunk.left():
		r.chunkDone(t)
	}
	return nil
}

// trackOf returns the track of p and how many records it may take. After a seek that is a new one:
// what was in flight before says nothing about the position after it.
func (r *runner) trackOf(p *part) (*track, int) {
	r.c.mu.Lock()
	paused := p.paused
	r.c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[p]
	if t == nil || t.d != p.chunk.d {
		if t != nil {
			r.forgetLocked(t)
		}
		ctx, cancel := context.WithCancelCause(r.values)
		t = &track{p: p, d: p.chunk.d, ctx: ctx, cancel: cancel, idle: make(chan struct{}), paused: paused}
		r.tracks[p], r.live[t] = t, true
	}
	room := max(0, r.cfg.MaxInFlight-t.inFlight())
	t.throttled = room == 0
	return t, room
}

// push queues records with their lanes.
func (r *runner) push(t *track, rs []record.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range rs {
		j := job{t: t, seq: t.add(rs[i].Offset, rs[i].LeaderEpoch), rec: rs[i]}
		r.cfg.RetryTopics.receive(&j)
		r.lanes.push(j)
	}
	t.throttled = t.inFlight() >= r.cfg.MaxInFlight
}

// chunkDone is part.chunkDone: what no reader sees is done when the records before it are.
func (r *runner) chunkDone(t *track) {
	next, epoch, pos := t.p.chunk.next, t.p.chunk.epoch, t.d.position.Load()
	t.p.chunk = chunk{}
	if next <= pos {
		return
	}
	t.d.position.Store(next)
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.inFlight() > 0 {
		r.doneLocked(t, t.add(next-1, epoch))
	} else if t.d.processed.Load() == pos {
		t.d.done(next)
		t.d.epoch.Store(epoch)
	}
}

// doneLocked counts a record as done, if it still says something about its partition.
func (r *runner) doneLocked(t *track, seq int64) {
	if t.obsolete {
		return
	}
	if end, moved := t.done(seq); moved {
		t.d.done(end.offset + 1)
		t.d.epoch.Store(end.epoch)
	}
}

// forget makes outcomes of p count for nothing: it was sought, or is gone. Called under
// Consumer.mu.
func (r *runner) forget(p *part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tracks[p]; t != nil {
		r.forgetLocked(t)
	}
}

// forgetLocked makes a track's outcomes count for nothing.
func (r *runner) forgetLocked(t *track) {
	t.obsolete = true
	t.close()
	if r.tracks[t.p] == t {
		delete(r.tracks, t.p)
	}
	if t.running == 0 {
		r.dropLocked(t)
	}
	r.lanes.purge()
}

// dropLocked lets go of a track without calls.
func (r *runner) dropLocked(t *track) {
	t.cancel(context.Canceled) // frees the context; no handler sees it
	delete(r.live, t)
}

// work is a worker's goroutine.
func (r *runner) work(w *worker) {
	defer r.c.beHelper()() // Close in a handler does not wait for it
	returned := false
	defer func() {
		if returned {
			r.leave()
			return
		}
		go func() { // the handler called runtime.Goexit: the goroutine is lost, its job is not
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

// leave counts a worker out.
func (r *runner) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alive--; r.alive == 0 {
		close(r.left)
	}
}

// begin takes jobs for w, waiting until there are some. False: Run has ended.
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

// finish ends the call of w: done jobs are done, again ones go back to their lane.
func (r *runner) finish(w *worker, done, again []job, failed error) {
	t := w.jobs[0].t
	r.mu.Lock()
	for i := range done {
		r.doneLocked(t, done[i].seq)
	}
	wake := false
	if failed != nil && !t.closing && r.failed == nil {
		r.failed, wake = failed, true
		r.endLocked() // before its lane goes on
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

// keepTime hands delayed lanes to workers when they are due.
func (r *runner) keepTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.mu.Lock()
		next, some := r.lanes.expire()
		r.mu.Unlock()
		if some {
			timer.Reset(time.Until(next))
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-r.lanes.rearm:
		case <-r.ended:
			return
		}
	}
}

func (r *runner) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// full reports whether p must not be handed out or fetched now. Called under Consumer.mu.
func (r *runner) full(p *part) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[p]
	return t != nil && t.d == p.d && t.throttled
}

// setPaused holds or releases what waits of p. Called under Consumer.mu.
func (r *runner) setPaused(p *part, paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tracks[p]; t != nil && t.paused != paused {
		t.paused = paused
		r.lanes.release()
	}
}

// overdue reports whether some call has been running for d or longer.
func (r *runner) overdue(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.workers, func(w *worker) bool { return w.lane != nil && time.Since(w.began) >= d })
}

// stuckLocked lists the records whose handlers run, at most ten.
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
