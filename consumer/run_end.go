package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// maxGrace bounds the wait for handlers whose contexts were cancelled.
const maxGrace = time.Second

// end starts the end of Run: no new calls begin, waiting jobs are dropped, and active handlers have
// DrainTimeout from now. It may be called repeatedly, with or without Consumer.mu.
func (r *runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked()
}

func (r *runner) endLocked() {
	if !r.endAt.IsZero() {
		return
	}
	r.endAt = time.Now().Add(r.cfg.DrainTimeout)
	close(r.ended)
	for t := range r.live {
		t.close()
	}
	r.lanes.purge()
}

// untilOver returns a context that ends with ctx, or DrainTimeout after Run's end, less the time
// that handlers get after their contexts are cancelled.
func (r *runner) untilOver(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	r.wg.Go(func() {
		select {
		case <-r.ended:
			closedBy([]<-chan struct{}{ctx.Done()}, r.deadline().Add(-r.grace()), r.hurry)
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// stop ends Run, waits for active handlers and returns unfinished records to their deliveries. It
// returns within DrainTimeout of Run's end, with an error if handlers are still active.
func (r *runner) stop() error {
	r.end()
	r.wg.Wait()
	r.await([]<-chan struct{}{r.left}, r.deadline(), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for t := range r.live {
			t.cancel(ErrDrainTimeout)
		}
	})
	r.mu.Lock()
	var stuck error
	if r.alive > 0 {
		stuck = r.stuckLocked()
	}
	for t := range r.live { // outcomes of active calls are ignored
		t.obsolete = true
		t.cancel(context.Canceled)
	}
	open := map[*track]int64{}
	for _, t := range r.tracks {
		if first, ok := t.firstOpen(); ok {
			open[t] = first
		}
	}
	r.mu.Unlock()
	for t, first := range open { // handed out again by the next poll
		t.d.undo(t.p, first)
	}
	return stuck
}

// drain lets the calls of partitions that are being revoked finish, within DrainTimeout, and drops
// waiting jobs. ignore follows when the partitions are given up; if they are not, stop gives
// unfinished records back.
func (r *runner) drain(parts []*part) {
	deadline := r.deadline()
	r.mu.Lock()
	ts := r.tracksLocked(parts)
	for _, t := range ts {
		t.close()
	}
	r.lanes.purge()
	r.mu.Unlock()
	r.await(idleOf(ts), deadline, func() { cancelAll(ts, ErrRebalanced) })
}

// lose cancels the contexts of calls of a lost partition, and makes their outcomes ignored. Called
// under Consumer.mu.
func (r *runner) lose(p *part, pollExceeded bool) {
	cause := ErrRebalanced
	if pollExceeded {
		cause = fmt.Errorf("%w: %w", ErrRebalanced, ErrPollTimeout)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ts := r.tracksLocked([]*part{p})
	cancelAll(ts, cause)
	for _, t := range ts {
		r.ignoreLocked(t)
	}
}

// tracksLocked returns the tracks of partitions, including former deliveries with active calls.
func (r *runner) tracksLocked(parts []*part) (ts []*track) {
	for t := range r.live {
		if slices.Contains(parts, t.p) {
			ts = append(ts, t)
		}
	}
	return ts
}

// awaitCalls waits until all present calls have returned, or Run ends. After a call that took
// longer than MaxPollInterval the polling goroutine waits here, so that the member does not join
// its group again before it is polled.
func (r *runner) awaitCalls() {
	r.mu.Lock()
	var ts []*track
	for t := range r.live {
		t.close()
		ts = append(ts, t)
	}
	r.mu.Unlock()
	for _, idle := range idleOf(ts) {
		select {
		case <-idle:
		case <-r.ended:
			return
		}
	}
}

// hurryUp shortens the wait for handlers: their contexts end now.
func (r *runner) hurryUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.hurry:
	default:
		close(r.hurry)
	}
}

// deadline returns the time DrainTimeout from now, or Run's deadline if it is earlier.
func (r *runner) deadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := time.Now().Add(r.cfg.DrainTimeout)
	if !r.endAt.IsZero() && r.endAt.Before(d) {
		d = r.endAt
	}
	return d
}

// await waits until all of idle are closed, at most until the deadline. It calls cancel when a
// tenth of DrainTimeout, at most a second, is left: handlers that observe their contexts return in
// time.
func (r *runner) await(idle []<-chan struct{}, deadline time.Time, cancel func()) {
	grace := r.grace()
	if closedBy(idle, deadline.Add(-grace), r.hurry) {
		return
	}
	cancel()
	select {
	case <-r.hurry:
		deadline = time.Now().Add(grace)
	default:
	}
	closedBy(idle, deadline, nil)
}

// closedBy reports whether all channels are closed by the given time. It waits until then, or until
// hurry is closed.
func closedBy(chs []<-chan struct{}, deadline time.Time, hurry <-chan struct{}) bool {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	for _, ch := range chs {
		select {
		case <-ch:
			continue
		default:
		}
		select {
		case <-ch:
		case <-t.C:
			return false
		case <-hurry:
			return false
		}
	}
	return true
}

// grace is the rest of DrainTimeout when the contexts of handlers are cancelled.
func (r *runner) grace() time.Duration { return min(r.cfg.DrainTimeout/10, maxGrace) }

func idleOf(ts []*track) (chs []<-chan struct{}) {
	for _, t := range ts {
		chs = append(chs, t.idle)
	}
	return chs
}

func cancelAll(ts []*track, cause error) {
	for _, t := range ts {
		t.cancel(cause)
	}
}
