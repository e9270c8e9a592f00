package consumer

import (
	"context"
	"time"

	"github.com/stratalog/strata/record"
)

// maxQueuedCommits bounds the commits that CommitAsync has waiting.
const maxQueuedCommits = 10_000

// commitQueue holds the commits of CommitAsync that were not sent yet, in order.
type commitQueue struct {
	waiting   []queuedCommit // guarded by Consumer.mu, as the next four
	goroutine int64          // the committer's
	queued    int64          // commits that ever waited
	answered  int64          // of them, in their order
	moved     chan struct{}  // closed with the next answer; nil: nobody waits for one
	// commits that were sent together with the one whose callback runs, and come after it. The
	// committer's
	behind   []*commitment
	ready    chan struct{} // tells the committer; capacity 1
	turn     chan struct{} // held while processed offsets are committed; capacity 1
	finish   chan struct{} // closed by Shutdown: send what waits, then end
	finished chan struct{} // closed by the committer
}

type queuedCommit struct {
	offsets record.Offsets
	done    func(record.Offsets, error)
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
// and must not block. If 10,000 wait already it gets ErrCommitQueueFull; after Close, ErrClosed.
// What was queued before Close, or before a partition is given up, is sent first. o is borrowed
// until then.
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
	case c.closing:
		refused = ErrClosed
	case c.commits.queued-c.commits.answered > maxQueuedCommits: // and one under way
		refused = ErrCommitQueueFull
	default:
		c.commits.waiting = append(c.commits.waiting, queuedCommit{o, done})
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
	defer close(c.commits.finished)
	defer c.beHelper()()
	c.mu.Lock()
	c.commits.goroutine = goroutineID()
	c.mu.Unlock()
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
		c.answer(qs, c.commitQueued(ctx, qs))
	}
}

// commitQueued commits what was queued, and returns the outcome of each.
func (c *Consumer) commitQueued(ctx context.Context, qs []queuedCommit) []*commitment {
	cms := make([]*commitment, len(qs))
	for i, q := range qs {
		cm, err := c.commitmentOf(withEpochs(q.offsets), true)
		if err != nil {
			cm = &commitment{}
			cm.settle(err)
		}
		cms[i] = cm
	}
	c.commitTogether(ctx, cms)
	return cms
}

// answer tells the callers, in order. Who waits for the queue goes on when the callbacks of those
// before have returned: what these commit must not come last.
func (c *Consumer) answer(qs []queuedCommit, cms []*commitment) {
	for i, q := range qs {
		c.commits.behind = cms[i+1:]
		q.done(q.offsets, cms[i].err)
		c.noteAnswered()
	}
	c.commits.behind = nil
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

// failCommits answers what still waits with err.
func (c *Consumer) failCommits(err error) {
	c.mu.Lock()
	waiting := c.commits.waiting
	c.commits.waiting = nil
	c.mu.Unlock()
	for _, q := range waiting {
		q.done(q.offsets, err)
	}
}
