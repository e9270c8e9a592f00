package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
)

// lifecycle is the state of a consumer's goroutines and shutdown. New sets everything except
// closeErr.
type lifecycle struct {
	endSession  func()             // ends the session with the backend; called once
	stop        context.CancelFunc // ends membership and watch
	joined      sync.WaitGroup     // waits for membership and watch
	memberEnded chan struct{}      // closed by Shutdown when they have ended
	stopCommits context.CancelFunc // ends the calls of the committer
	wg          sync.WaitGroup     // the other goroutines
	closed      chan struct{}      // closed when Shutdown has done its work
	closeErr    error              // set before closed is closed
}

// Close calls Shutdown with a timeout of 30 s, plus DrainTimeout while a Run is active.
func (c *Consumer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.closeTimeout())
	defer cancel()
	return c.Shutdown(ctx)
}

func (c *Consumer) closeTimeout() time.Duration {
	if r := c.running(); r != nil {
		return r.cfg.DrainTimeout + DefaultCloseTimeout
	}
	return DefaultCloseTimeout
}

// Shutdown closes the consumer. In this order it ends polling, sends the commits queued by
// CommitAsync, commits processed records (with CommitProcessed), calls the callbacks and leaves the
// group. OnLost is called for partitions lost since the last poll, OnRevoked for the others. A
// static member does not leave: it stays a member until its session times out. Shutdown returns
// when the last goroutine has ended. It is idempotent; later callers wait for the first.
//
// Shutdown waits for a loop body that runs on another goroutine, and then counts its record as
// processed. It does not wait for the application to process the batch of the last Poll, and does
// not count that batch as processed. The callbacks and the final commit may run concurrently with
// that work. ctx bounds the wait. When ctx ends, the consumer leaves the group without the
// callbacks, and the error matches ctx.Err(). The commit and leaving the group take at most
// HeartbeatInterval longer.
//
// A rebalance in progress or a change of the coordinator does not lose the final commit: it is
// retried for HeartbeatInterval until the coordinator accepts it. The error matches ErrRebalanced
// only if the group completed a rebalance without this member, since other members may then own its
// partitions.
//
// Shutdown may be called from a loop body and from callbacks. It does not wait for its caller, and
// the caller's record counts as not processed. It returns immediately from a callback of
// CommitAsync, and from a loop body or callback that another Shutdown waits for. The consumer is
// then closed after the caller has returned.
func (c *Consumer) Shutdown(ctx context.Context) error {
	id := goroutineID()
	c.mu.Lock()
	first, inLoop, inHelper := !c.closing, id == c.loop && id != 0, c.helpers[id]
	c.closing = true
	c.wakeLocked()
	c.mu.Unlock()
	switch {
	case first && inHelper:
		c.wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.closeTimeout())
			defer cancel()
			c.shutdown(ctx, false)
		})
		return nil
	case first:
		c.shutdown(ctx, inLoop)
	case inLoop, inHelper:
		return nil
	}
	select {
	case <-c.closed:
	case <-ctx.Done():
		if !first {
			return ctx.Err()
		}
		<-c.closed // shutdown has returned
	}
	if !inLoop {
		c.wg.Wait()
	}
	return c.closeErr
}

// isClosed reports whether Shutdown has completed.
func (c *Consumer) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// beHelper marks the calling goroutine as one that runs callbacks of the application: a Shutdown
// called on it does not wait for it.
func (c *Consumer) beHelper() (end func()) {
	id := goroutineID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.helpers[id] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.helpers, id)
	}
}

// shutdown does the work of the first Shutdown. inLoop is true if the caller is the polling
// goroutine.
func (c *Consumer) shutdown(ctx context.Context, inLoop bool) {
	var errs []error
	idle := inLoop || c.awaitPoller(ctx)
	if !idle {
		errs = append(errs, fmt.Errorf("consumer: close: the loop body is still at work: %w", ctx.Err()))
	}
	defer func() { // also if OnRevoked panics or calls runtime.Goexit: others wait for it
		c.refuseCommits()
		c.endSession() // no call is left, except the application's on other goroutines
		c.closeErr = errors.Join(errs...)
		c.mu.Lock()
		c.target, c.held, c.order = target{}, assignment{}, nil
		clear(c.parts)
		close(c.closed)
		c.mu.Unlock()
	}()
	if ctx.Err() != nil { // the remaining work is short, and must not be lost
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.HeartbeatInterval)
		defer cancel()
		ctx = late
	}
	c.stop()
	c.joined.Wait()
	c.mu.Lock()
	c.commitBy = time.Now().Add(c.cfg.HeartbeatInterval)
	c.mu.Unlock()
	close(c.memberEnded)
	if c.groups != nil {
		stopCommits := context.AfterFunc(ctx, c.stopCommits)
		close(c.commits.finish)
		<-c.commits.finished
		stopCommits()
		c.stopCommits()
		errs = append(errs, c.leave(ctx, idle))
	}
}

// awaitPoller waits until no goroutine polls. It returns false if ctx is done first.
func (c *Consumer) awaitPoller(ctx context.Context) bool {
	c.mu.Lock()
	if !c.polling {
		c.mu.Unlock()
		return true
	}
	ended := make(chan struct{})
	c.pollEnded = ended
	r := c.runner
	c.mu.Unlock()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	if r == nil {
		return false
	}
	r.hurryUp()
	t := time.NewTimer(maxGrace)
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
		return false
	}
}

// leave gives the partitions up and leaves the group. idle is true if no loop body is active, so
// that callbacks may run.
func (c *Consumer) leave(ctx context.Context, idle bool) (err error) {
	owned := c.Assignment()
	err = c.commitBeforeHandover(ctx, owned)
	defer func() { err = errors.Join(err, c.takeLeave(ctx)) }() // whatever the callbacks do
	c.loseUnnoticed(ctx, idle)
	if c.cfg.OnRevoked != nil && idle {
		if tps := c.notBeingRevoked(owned); len(tps) > 0 {
			c.callback(ctx, c.cfg.OnRevoked, tps)
		}
	}
	return err
}

// loseUnnoticed drops partitions that were lost since the polling goroutine last checked.
func (c *Consumer) loseUnnoticed(ctx context.Context, idle bool) {
	c.mu.Lock()
	lost := c.held.to(c.target).lost
	c.dropLocked(lost)
	c.mu.Unlock()
	if len(lost) > 0 && idle {
		c.callback(ctx, c.cfg.OnLost, lost)
	}
}

// takeLeave sends the member's leave request to the group.
func (c *Consumer) takeLeave(ctx context.Context) error {
	id := c.state().id
	if id == "" {
		return nil
	}
	return c.membership.protocol.leave(ctx, id, "the consumer is being closed")
}

// notBeingRevoked leaves out the partitions whose OnRevoked is running: Close was called from it.
func (c *Consumer) notBeingRevoked(tps []record.TopicPartition) (left []record.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	being := map[record.TopicPartition]bool{}
	for _, tp := range c.revoking {
		being[tp] = true
	}
	for _, tp := range tps {
		if !being[tp] {
			left = append(left, tp)
		}
	}
	return left
}

// commitWhileClosing retries a commit until the end of a rebalance or of a transient failure, after
// the membership goroutine has ended.
func (c *Consumer) commitWhileClosing(ctx context.Context, try func() error) error {
	c.mu.Lock()
	by := c.commitBy
	c.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	defer c.membership.protocol.reopenCommits(ctx)()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := try()
		again := errors.Is(err, group.ErrRebalanceInProgress) || errors.Is(err, group.ErrIllegalGeneration) || passes(err)
		if !again || retriable.Final(err) || ctx.Err() != nil {
			return err
		}
		pause(ctx, wait)
	}
}
