package log

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A chanLock is a mutex that may be held during I/O: whoever waits for it blocks on a channel, so
// that its goroutine counts as durably blocked in a testing/synctest bubble. The zero chanLock is
// unlocked.
type chanLock struct {
	held atomic.Bool // set by who has it
	some atomic.Bool // waiting is not empty; written under mu

	mu      sync.Mutex      // guards waiting
	waiting []chan struct{} // first come, first woken; who is woken tries again
}

func (c *chanLock) tryLock() bool { return c.held.CompareAndSwap(false, true) }

func (c *chanLock) lock() {
	for !c.tryLock() {
		ch := make(chan struct{})
		c.mu.Lock()
		c.waiting = append(c.waiting, ch)
		c.some.Store(true)
		c.mu.Unlock()
		// The holder stores held and then loads some, we store some and then load held: at least
		// one of us sees the other, so nobody waits for a lock that is free.
		if c.tryLock() {
			c.forget(ch)
			return
		}
		<-ch
	}
}

func (c *chanLock) forget(ch chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(x chan struct{}) bool { return x == ch })
	c.some.Store(len(c.waiting) > 0)
}

func (c *chanLock) unlock() {
	c.held.Store(false)
	if !c.some.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		close(c.waiting[0])
		c.waiting = c.waiting[1:]
		c.some.Store(len(c.waiting) > 0)
	}
}
