package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/stratalog/strata/record"
)

// A runner is one active Run. The polling goroutine feeds it; workers call the handler; another
// goroutine waits for records that are not due yet.
type runner struct {
	c           *Consumer
	cfg         RunConfig
	handle      Handler      // nil: handleBatch
	handleBatch BatchHandler // nil: handle

	ctx    context.Context // Run's; it may end shortly before end is called
	values context.Context // Run's, without its cancellation: parent of the handlers' contexts
	ended  chan struct{}   // closed by end: no new calls begin
	left   chan struct{}   // closed when the last worker has ended
	hurry  chan struct{}   // closed when Shutdown's context has ended: DrainTimeout ends early
	wg     sync.WaitGroup  // the timekeeper, and a goroutine that watches a hand-over
	buf    []record.Record // used by feed

	mu      sync.Mutex // guards the fields below; taken after Consumer.mu
	lanes   lanes
	workers []*worker
	alive   int              // workers that have not ended
	tracks  map[*part]*track // tracks of fed partitions
	live    map[*track]bool  // tracks with active calls or waiting jobs, including former positions
	failed  error            // ends Run
	endAt   time.Time        // zero: not ended; else the deadline of Run
}

// start starts the goroutines. The caller must call stop.
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

// doneLocked marks a record as done, if its track is not obsolete.
func (r *runner) doneLocked(t *track, seq int64) {
	if t.obsolete {
		return
	}
	if end, moved := t.done(seq); moved {
		t.d.done(end.offset + 1)
	}
}

// nothingDone reports whether workers have records of p's present delivery, and none of them is
// done. Called under Consumer.mu.
func (r *runner) nothingDone(p *part) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[p]
	return t != nil && t.d == p.d && t.first == 0 && t.inFlight() > 0
}

// ignore drops later outcomes of p, after a seek or a loss of p. Called under Consumer.mu.
func (r *runner) ignore(p *part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tracks[p]; t != nil {
		r.ignoreLocked(t)
	}
}

// ignoreLocked makes a track's outcomes ignored.
func (r *runner) ignoreLocked(t *track) {
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

// dropLocked removes a track without calls.
func (r *runner) dropLocked(t *track) {
	t.cancel(context.Canceled) // frees the context; it is not visible to a handler
	delete(r.live, t)
}

// keepTime hands delayed lanes to workers when they are due.
func (r *runner) keepTime() {
	timer := time.NewTimer(time.Hour) // set below
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

// setPaused holds or releases the waiting jobs of p. Called under Consumer.mu.
func (r *runner) setPaused(p *part, paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tracks[p]; t != nil && t.paused != paused {
		t.paused = paused
		r.lanes.release()
	}
}
