package consumer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/record"
)

// maxQueuedCommits bounds the queue of CommitAsync.
const maxQueuedCommits = 10_000

// commitQueue holds the commits of CommitAsync that were not sent yet, in order.
type commitQueue struct {
	waiting   []queuedCommit // guarded by Consumer.mu, as the next six
	closed    bool           // waiting is no longer read
	goroutine int64          // id of the committer goroutine
	queued    int64          // number of commits ever queued
	answered  int64          // number of them with an outcome, in order
	moved     chan struct{}  // closed at the next outcome; nil: no goroutine waits
	underWay  int            // calls of commitTogether
	// the last commit without a caller has failed, see noteCommit
	failing atomic.Bool
	// sent has the commits with an outcome whose callback has not run yet; behind has the outcomes,
	// in the same order. The commit of an active callback is not included. Only the committer uses
	// them.
	sent   []queuedCommit
	behind []*commitment
	ready  chan struct{} // signals the committer; capacity 1
	turn   chan struct{} // held during an internal commit of the consumer; capacity 1
	// true while Transform runs: only Transform commits processed offsets. Written by the polling
	// goroutine, read with turn held
	transforming atomic.Bool
	finish       chan struct{} // closed by Shutdown: send the queue, then end
	finished     chan struct{} // closed by the committer
}

type queuedCommit struct {
	offsets record.Offsets
	done    func(record.Offsets, error)
	refused error // outcome of a commit that is not sent; nil: it is sent
}

func newCommitQueue() commitQueue {
	return commitQueue{ready: make(chan struct{}, 1), turn: make(chan struct{}, 1), finish: make(chan struct{}), finished: make(chan struct{})}
}

// CommitAsync queues a commit and returns immediately. Commits are sent in the order of the calls;
// Commit and the other blocking calls are sent after those queued before them. Commits that queue
// up during a request are combined into the next one: the last offset of each partition counts.
// Each call still has its own outcome, so a rejected commit does not fail the others.
//
// done, if not nil, is called exactly once, in the order of the calls, on a goroutine of the
// consumer. It must not block. After Close the error is ErrClosed, still in the order of the calls
// while earlier ones are pending. With 10,000 commits in the queue the error is ErrCommitQueueFull,
// and for a free consumer ErrNoGroup. In these two cases done is called on the caller's goroutine
// before CommitAsync returns. Commits queued before Close, or before a partition is revoked, are
// sent first. o is borrowed until done is called.
//
// A Commit or other blocking call from within done does not wait for later CommitAsync calls. Their
// offsets take precedence, even if they were sent in the same request as done's.
func (c *Consumer) CommitAsync(o record.Offsets, done func(record.Offsets, error)) {
	if done == nil {
		done = func(_ record.Offsets, err error) { c.noteCommit(err) }
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
			q.refused = ErrClosed // after the commits that are still sent
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

// runCommitter sends the commits of CommitAsync and, unless Commit is CommitManual, commits
// processed offsets every CommitInterval. With CommitBeforeDelivery these are the starting offset
// and offsets of invisible records.
func (c *Consumer) runCommitter(ctx context.Context) {
	c.runCallbacks(c.commits.finished, func() { c.commitUntilFinish(ctx) })
}

// runCallbacks calls fn, which runs callbacks of CommitAsync, and closes ended when fn has
// returned. If a callback ends its goroutine with runtime.Goexit, fn is called again on another
// goroutine for the remaining work.
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
	c.sendQueued(ctx) // left by an earlier goroutine
	var tick <-chan time.Time
	if c.cfg.Commit != CommitManual {
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
			if err := c.commitProcessed(ctx, c.Assignment()); ctx.Err() == nil {
				c.noteCommit(err)
			}
		case <-c.commits.ready:
			c.sendQueued(ctx)
		}
	}
}

// sendQueued sends all queued commits, in order.
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

// commitQueued sends the queued commits qs, and returns the outcome of each.
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

// answer calls the callbacks of sent commits, in order. Goroutines that wait for the queue continue
// when the callbacks of earlier commits have returned, since commits of these callbacks must not
// come last.
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

// awaitQueued waits until the commits now in the queue have outcomes, or never will. In a callback
// of CommitAsync it does not wait: later commits come later, and those of them that were already
// sent are returned.
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

// refuseCommits ends all commits in the queue with ErrClosed, including new ones. The committer has
// ended.
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

// takeRefused sets the outcomes of queued commits. It returns false if the queue is empty and
// closed.
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
