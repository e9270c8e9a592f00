package consumer

import (
	"context"
	"errors"
	"time"
)

// activity is the state of the polling goroutine, with the means to interrupt it. Guarded by
// Consumer.mu.
type activity struct {
	waiter    waiter
	polling   bool
	loop      int64          // goroutine that runs a loop or callback of the application; 0: none
	helpers   map[int64]bool // other goroutines that run callbacks, see beHelper
	pollEnded chan struct{}  // closed when no goroutine polls any more; nil: no goroutine waits for that
	woken     bool
	closing   bool
	commitBy  time.Time // deadline of commits in a closing consumer's rebalance
	fatal     error     // ends polling for good
}

// startPolling makes the caller the polling goroutine. loop is true if the application's code runs
// before stopPolling.
func (c *Consumer) startPolling(loop bool) error {
	id := int64(0)
	if loop {
		id = goroutineID()
	}
	c.progress.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.polling:
		return ErrConcurrentPoll
	case c.closing:
		return ErrClosed
	}
	c.polling, c.loop = true, id
	c.batchProcessed() // of an earlier Poll: any new poll marks its records as processed
	return nil
}

func (c *Consumer) stopPolling() {
	c.progress.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiter.cancel != nil {
		c.waiter.cancel()
		c.waiter = waiter{}
	}
	c.polling, c.loop = false, 0
	if c.pollEnded != nil {
		close(c.pollEnded)
		c.pollEnded = nil
	}
}

// next returns a partition that has records to hand out, waiting until there is one.
func (c *Consumer) next(ctx context.Context) (*part, error) {
	c.progress.Add(1)
	for {
		if err := c.handleChanges(ctx); err != nil {
			return nil, err
		}
		if p := c.buffered(); p != nil {
			return p, nil
		}
		if err := c.locate(ctx); err != nil {
			return nil, err
		}
		if err := c.fetch(ctx); err != nil {
			return nil, err
		}
	}
}

// handleChanges handles all events since its last call. It runs on the polling goroutine, between
// two records.
func (c *Consumer) handleChanges(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.dirty.Load() {
		return nil
	}
	for {
		c.mu.Lock()
		c.dirty.Store(false)
		err := c.interruptionLocked()
		if err != nil {
			c.dirty.Store(true) // the condition persists, or there is more to check
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
		if more, err := c.adoptStep(ctx); !more || err != nil {
			return err
		}
	}
}

// interruptionLocked returns the error that ends a poll.
func (c *Consumer) interruptionLocked() error {
	switch {
	case c.closing:
		return ErrClosed
	case c.fatal != nil:
		return c.fatal
	case c.runner != nil && c.runner.err() != nil: // a handler failed for good
		return c.runner.err()
	case c.woken:
		c.woken = false
		return ErrWakeup
	}
	return nil
}

// buffered returns a partition with fetched records, nil if there is none. It drops records that a
// seek made stale.
func (c *Consumer) buffered() *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.order {
		if p.chunk.left() && p.chunk.d != p.d {
			p.chunk = chunk{}
		}
		if p.ready() && (c.runner == nil || !c.runner.full(p)) {
			return p
		}
	}
	return nil
}

// lookUp makes the poller check the state before the next record.
func (c *Consumer) lookUp() { c.dirty.Store(true) }

// quiet reports whether err ends an iteration without being reported.
func (c *Consumer) quiet(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrWakeup) || errors.Is(err, ErrClosed)
}

func (c *Consumer) isFatal(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal != nil && errors.Is(err, c.fatal)
}
