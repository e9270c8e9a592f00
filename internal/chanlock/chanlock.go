// Package chanlock has a mutex that may be held during I/O.
package chanlock

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Lock is a mutex that may be held during I/O: waiters block on a channel, so that their
// goroutines count as durably blocked in a testing/synctest bubble. The zero Lock is unlocked.
// Without waiters it takes 16 bytes.
type Lock struct {
	held  atomic.Bool           // set by the holder
	some  atomic.Bool           // there are waiters; written under queue.mu
	queue atomic.Pointer[queue] // made by the first waiter, and not replaced
}

type queue struct {
	mu      sync.Mutex      // guards waiting
	waiting []chan struct{} // first come, first woken; who is woken tries again
}

// TryLock takes the lock if it is free, and reports whether it was.
func (l *Lock) TryLock() bool { return l.held.CompareAndSwap(false, true) }

// Lock waits until the lock is free and takes it.
func (l *Lock) Lock() {
	for !l.TryLock() {
		ch := make(chan struct{})
		q := l.waiters()
		q.mu.Lock()
		q.waiting = append(q.waiting, ch)
		l.some.Store(true)
		q.mu.Unlock()
		// The holder stores held and then loads some, we store some and then load held: at least
		// one of us sees the other, so nobody waits for a lock that is free.
		if l.TryLock() {
			l.forget(ch)
			return
		}
		<-ch
	}
}

func (l *Lock) waiters() *queue {
	if l.queue.Load() == nil {
		l.queue.CompareAndSwap(nil, new(queue))
	}
	return l.queue.Load()
}

func (l *Lock) forget(ch chan struct{}) {
	q := l.queue.Load()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(x chan struct{}) bool { return x == ch })
	l.some.Store(len(q.waiting) > 0)
}

// Unlock gives the lock back, by whichever goroutine.
func (l *Lock) Unlock() {
	l.held.Store(false)
	if !l.some.Load() {
		return
	}
	q := l.queue.Load() // it was stored before some
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
		l.some.Store(len(q.waiting) > 0)
	}
}
