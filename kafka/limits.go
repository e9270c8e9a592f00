package kafka

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits bound what clients can take. A zero field means its default.
type Limits struct {
	// RequestBytes bounds a request; default 100 MiB. Kafka: socket.request.max.bytes. Requests
	// other than produce may also not be larger decoded than InFlightBytes: their limit is that
	// divided by the bytes of memory that a byte of the request can take, about 1 to 5 MiB.
	RequestBytes  int
	Connections   int // at a time; default 10,000. Kafka: max.connections
	InFlightBytes int // of requests and responses over all connections; default 256 MiB, and as much again for
	// what is being decoded. Kafka: queued.max.request.bytes
	FirstRequest time.Duration // until a new connection has sent a request, and has authenticated; default 10 s
	WholeRequest time.Duration // from a request's first byte to its last; default 30 s
	Idle         time.Duration // between requests; default 10 min. Kafka: connections.max.idle.ms
	SlowReader   time.Duration // a client takes nothing of a response that waits for it; default 30 s
}

func (l Limits) withDefaults() Limits {
	set := func(p *int, n int) {
		if *p <= 0 {
			*p = n
		}
	}
	wait := func(p *time.Duration, d time.Duration) {
		if *p <= 0 {
			*p = d
		}
	}
	set(&l.RequestBytes, 100<<20)
	set(&l.Connections, 10_000)
	set(&l.InFlightBytes, 256<<20)
	l.InFlightBytes = max(l.InFlightBytes, 2*l.RequestBytes) // one request must fit, and its answer
	wait(&l.FirstRequest, 10*time.Second)
	wait(&l.WholeRequest, 30*time.Second)
	wait(&l.Idle, 10*time.Minute)
	wait(&l.SlowReader, 30*time.Second)
	return l
}

// budget is the bytes that all connections together may hold.
type budget struct {
	sem  *semaphore.Weighted
	size int
}

func newBudget(size int) *budget { return &budget{semaphore.NewWeighted(int64(size)), size} }

// take waits until n bytes are free.
func (b *budget) take(ctx context.Context, n int) error { return b.sem.Acquire(ctx, int64(n)) }

// takeWithin is take that gives up after d: for those who hold bytes
// already, and must not wait for each other.
func (b *budget) takeWithin(ctx context.Context, n int, d time.Duration) error {
	if b.sem.TryAcquire(int64(n)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return b.sem.Acquire(ctx, int64(n))
}

// tryTake takes want bytes, or half, a quarter, ... of it, at
// least least; 0 if not even that is free.
func (b *budget) tryTake(want, least int) int {
	for n := want; n >= least; n /= 2 {
		if b.sem.TryAcquire(int64(n)) {
			return n
		}
	}
	return 0
}

func (b *budget) give(n int) {
	if n > 0 {
		b.sem.Release(int64(n))
	}
}
