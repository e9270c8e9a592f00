package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// lifecycle is a consumer's goroutines and its end. Everything but closeErr is set by New.
type lifecycle struct {
	stop        context.CancelFunc // ends membership and watch
	joined      sync.WaitGroup     // them
	memberEnded chan struct{}      // closed by Shutdown when they have
	stopCommits context.CancelFunc // ends the calls of the committer
	wg          sync.WaitGroup     // the other goroutines
	closed      chan struct{}      // closed when Shutdown has done its work
	closeErr    error              // set before closed is closed
}

// Close is Shutdown with a bound of 30 s, and DrainTimeout besides if a Run is under way.
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

// Shutdown ends polling, sends what CommitAsync has queued, commits what is processed (with
// CommitProcessed), calls OnLost for what was lost since the last poll and OnRevoked for the rest,
// leaves the group (a static member stays its member for the rest of its session) and returns when
// the last goroutine has ended. It is idempotent; later callers wait for the first.
//
// A loop body at work on another goroutine is waited for, and its record then counts as processed;
// what the last Poll handed out does not, and is not waited for: both may run beside it. ctx
// bounds that wait, then the consumer leaves without calling either, and the error matches
// ctx.Err(). Committing and leaving take at most HeartbeatInterval longer.
//
// A rebalance under way does not lose that commit, whichever of its answers has not come: the
// coordinator is asked until it takes it. Only if the group went on without this member, so that
// others may have its partitions, the error matches ErrRebalanced.
//
// Shutdown may be called from a loop body and from the callbacks, which it does not wait for then:
// the record in hand counts as not processed. From a callback of CommitAsync, or while another
// Shutdown waits for the caller, it returns at once and the consumer is closed when the callback
// has returned.
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

// isClosed reports whether Shutdown has done its work.
func (c *Consumer) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// beHelper marks the calling goroutine, which runs callbacks of the application, as one that
// Shutdown does not wait for when it is called from there.
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

// shutdown does the work of the first Shutdown. inLoop says that the caller is the polling
// goroutine.
func (c *Consumer) shutdown(ctx context.Context, inLoop bool) {
	var errs []error
	idle := inLoop || c.awaitPoller(ctx)
	if !idle {
		errs = append(errs, fmt.Errorf("consumer: close: the loop body is still at work: %w", ctx.Err()))
	}
	defer func() { // also if OnRevoked panics or calls runtime.Goexit: others wait for it
		c.refuseCommits()
		c.closeErr = errors.Join(errs...)
		c.mu.Lock()
		c.target, c.held, c.order = target{}, assignment{}, nil
		clear(c.parts)
		close(c.closed)
		c.mu.Unlock()
	}()
	if ctx.Err() != nil { // what is left is short, and must not be lost
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

// awaitPoller waits until nobody polls. It returns false if ctx is done first.
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

// leave gives the partitions up and takes leave of the group. idle says that no loop body is at
// work, so that callbacks may run.
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

// loseUnnoticed drops what was lost since the polling goroutine looked last.
func (c *Consumer) loseUnnoticed(ctx context.Context, idle bool) {
	c.mu.Lock()
	lost := c.held.to(c.target).lost
	c.dropLocked(lost)
	c.mu.Unlock()
	if len(lost) > 0 && idle {
		c.callback(ctx, c.cfg.OnLost, lost)
	}
}

// takeLeave tells the group that the member is gone.
func (c *Consumer) takeLeave(ctx context.Context) error {
	id := c.state().id
	if id == "" {
		return nil
	}
	return c.membership.protocol.leave(ctx, id)
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

// commitWhileClosing is how a commit waits for the end of a rebalance once the membership goroutine
// has ended.
func (c *Consumer) commitWhileClosing(ctx context.Context, try func() error) error {
	c.mu.Lock()
	by := c.commitBy
	c.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	defer c.membership.protocol.reopenCommits(ctx)()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := try()
		if !errors.Is(err, group.ErrRebalanceInProgress) && !errors.Is(err, group.ErrIllegalGeneration) || ctx.Err() != nil {
			return err
		}
		pause(ctx, wait)
	}
}
