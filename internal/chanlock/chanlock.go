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
	queue atomic.Pointer[queue] // created by the first waiter, and never replaced
}

type queue struct {
	mu      sync.Mutex      // guards waiting
	waiting []chan struct{} // in the order of arrival; a woken waiter tries again
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
		// Unlock stores held and then loads some. Lock stores some and then loads held. At least
		// one of them sees the store of the other, so no goroutine waits for a free lock.
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

// Unlock releases the lock. Any goroutine may call it.
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
