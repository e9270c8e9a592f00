package consumer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/record"
)

// maxQueuedCommits bounds the commits that CommitAsync has waiting.
const maxQueuedCommits = 10_000

// commitQueue holds the commits of CommitAsync that were not sent yet, in order.
type commitQueue struct {
	waiting   []queuedCommit // guarded by Consumer.mu, as the next five
	closed    bool           // nobody looks at waiting any more
	goroutine int64          // the committer's
	queued    int64          // commits that ever waited
	answered  int64          // of them, in their order
	moved     chan struct{}  // closed with the next answer; nil: nobody waits for one
	// commits that have their outcome, and whose callbacks are to run; in behind the outcomes, in
	// the same order. While a callback runs its own is not among them any more. The committer's
	sent   []queuedCommit
	behind []*commitment
	ready  chan struct{} // tells the committer; capacity 1
	turn   chan struct{} // held while processed offsets are committed; capacity 1
	// Transform is under way, and processed offsets are committed by nobody else. Written by the
	// polling goroutine, looked at with the turn
	transforming atomic.Bool
	finish       chan struct{} // closed by Shutdown: send what waits, then end
	finished     chan struct{} // closed by the committer
}

type queuedCommit struct {
	offsets record.Offsets
	done    func(record.Offsets, error)
	refused error // not to be sent: its outcome when its turn comes
}

func newCommitQueue() commitQueue {
	return commitQueue{ready: make(chan struct{}, 1), turn: make(chan struct{}, 1), finish: make(chan struct{}), finished: make(chan struct{})}
}

// CommitAsync queues a commit and returns at once. Commits are sent in order: Commit and the other
// calls that wait are sent behind what was queued before them. While one is under way those that
// wait gather, and are sent as one: of each partition the offset of the last call counts. Each has
// an outcome of its own: one that is refused leaves the others alone.
//
// done, if not nil, runs exactly once, in the order of the calls, on a goroutine of the consumer,
// and must not block. After Close it gets ErrClosed, in its turn as long as others wait. If 10,000
// wait already it gets ErrCommitQueueFull, and for a free consumer ErrNoGroup: these run at once,
// on the caller's goroutine. What was queued before Close, or before a partition is given up, is
// sent first. o is borrowed until then.
//
// Commit and the like, called from done, do not wait for the calls behind it: these win, also those
// that were sent together with it.
func (c *Consumer) CommitAsync(o record.Offsets, done func(record.Offsets, error)) {
	if done == nil {
		done = func(record.Offsets, error) {}
	}
	c.mu.Lock()
	var refused error
	switch {
	case c.groups == nil:
		refused = ErrNoGroup
	case c.commits.closed:
		refused = ErrClosed
	case c.commits.queued-c.commits.answered > maxQueuedCommits: // and one under way
		refused = ErrCommitQueueFull
	default:
		q := queuedCommit{offsets: o, done: done}
		if c.closing {
			q.refused = ErrClosed // behind those that are sent still
		}
		c.commits.waiting = append(c.commits.waiting, q)
		c.commits.queued++
	}
	c.mu.Unlock()
	if refused != nil {
		done(o, refused)
		return
	}
	select {
	case c.commits.ready <- struct{}{}:
	default:
	}
}

// runCommitter sends what CommitAsync queued, and with CommitProcessed what is processed, every
// CommitInterval.
func (c *Consumer) runCommitter(ctx context.Context) {
	c.runCallbacks(c.commits.finished, func() { c.commitUntilFinish(ctx) })
}

// runCallbacks runs fn, which runs callbacks of CommitAsync, and closes ended when it has returned.
// If a callback calls runtime.Goexit the goroutine is lost, what is left to do is not: fn begins
// again on another.
func (c *Consumer) runCallbacks(ended chan struct{}, fn func()) {
	returned := false
	defer func() {
		if returned {
			close(ended)
			return
		}
		c.wg.Go(func() { c.runCallbacks(ended, fn) })
	}()
	defer c.beHelper()()
	c.mu.Lock()
	c.commits.goroutine = goroutineID()
	c.mu.Unlock()
	c.answer()
	fn()
	returned = true
}

func (c *Consumer) commitUntilFinish(ctx context.Context) {
	c.sendQueued(ctx) // what is left of an earlier goroutine
	var tick <-chan time.Time
	if c.cfg.Commit == CommitProcessed {
		t := time.NewTicker(c.cfg.CommitInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-c.commits.finish:
			c.sendQueued(ctx)
			return
		case <-tick:
			if err := c.commitProcessed(ctx, c.Assignment()); err != nil && ctx.Err() == nil {
				c.cfg.Logger.Debug("periodic commit failed, the next one includes it", "group", c.cfg.Group, "err", err)
			}
		case <-c.commits.ready:
			c.sendQueued(ctx)
		}
	}
}

// sendQueued sends everything that waits, in order.
func (c *Consumer) sendQueued(ctx context.Context) {
	for {
		c.mu.Lock()
		qs := c.commits.waiting
		if len(qs) == 0 || ctx.Err() != nil {
			c.mu.Unlock()
			return
		}
		c.commits.waiting = nil
		c.mu.Unlock()
		c.commits.sent, c.commits.behind = qs, c.commitQueued(ctx, qs)
		c.answer()
	}
}

// commitQueued commits what was queued, and returns the outcome of each.
func (c *Consumer) commitQueued(ctx context.Context, qs []queuedCommit) []*commitment {
	cms := make([]*commitment, len(qs))
	for i, q := range qs {
		cm, err := (*commitment)(nil), q.refused
		if err == nil {
			cm, err = c.commitmentOf(withEpochs(q.offsets), true)
		}
		if err != nil {
			cm = &commitment{}
			cm.settle(err)
		}
		cms[i] = cm
	}
	c.commitTogether(ctx, cms)
	return cms
}

// answer tells the callers of what was sent, in order. Who waits for the queue goes on when the
// callbacks of those before have returned: what these commit must not come last.
func (c *Consumer) answer() {
	for len(c.commits.sent) > 0 {
		q, cm := c.commits.sent[0], c.commits.behind[0]
		c.commits.sent, c.commits.behind = c.commits.sent[1:], c.commits.behind[1:]
		c.answerOne(q, cm.err)
	}
	c.commits.sent, c.commits.behind = nil, nil
}

func (c *Consumer) answerOne(q queuedCommit, err error) {
	defer c.noteAnswered()
	q.done(q.offsets, err)
}

func (c *Consumer) noteAnswered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits.answered++
	if c.commits.moved != nil {
		close(c.commits.moved)
		c.commits.moved = nil
	}
}

// awaitQueued returns when the commits that wait now have their answers, or never get one. In a
// callback of CommitAsync it does not wait: those behind come later, and those of them that were
// sent already are returned.
func (c *Consumer) awaitQueued(ctx context.Context) (behind []*commitment, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for upTo := c.commits.queued; c.commits.answered < upTo; {
		if goroutineID() == c.commits.goroutine {
			return c.commits.behind, nil
		}
		if c.commits.moved == nil {
			c.commits.moved = make(chan struct{})
		}
		moved := c.commits.moved
		c.mu.Unlock()
		select {
		case <-moved:
			c.mu.Lock()
		case <-c.commits.finished:
			c.mu.Lock()
			return nil, nil
		case <-ctx.Done():
			c.mu.Lock()
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// refuseCommits answers what still waits, and what comes until nothing does, with ErrClosed. The
// committer has ended.
func (c *Consumer) refuseCommits() {
	if c.groups == nil {
		return
	}
	ended := make(chan struct{})
	c.wg.Go(func() {
		c.runCallbacks(ended, func() {
			for c.takeRefused() {
				c.answer()
			}
		})
	})
	<-ended
}

// takeRefused gives what waits its outcome. False: nothing does, and nothing will.
func (c *Consumer) takeRefused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.commits.waiting
	c.commits.waiting, c.commits.closed = nil, len(left) == 0
	cms := make([]*commitment, len(left))
	for i := range cms {
		cms[i] = &commitment{settled: true, err: ErrClosed}
	}
	c.commits.sent, c.commits.behind = left, cms
	return len(left) > 0
}
