package transport

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// A Budget is the bytes that all connections of a server together may hold. Its methods are safe
// for concurrent use.
type Budget struct {
	sem  *semaphore.Weighted
	size int
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int) *Budget { return &Budget{semaphore.NewWeighted(int64(size)), size} }

// Size returns how many bytes there are in all.
func (b *Budget) Size() int { return b.size }

// Take waits until n bytes are free.
func (b *Budget) Take(ctx context.Context, n int) error { return b.sem.Acquire(ctx, int64(n)) }

// TakeWithin is Take that gives up after d: for those who hold bytes
// already, and must not wait for each other.
func (b *Budget) TakeWithin(ctx context.Context, n int, d time.Duration) error {
	if b.sem.TryAcquire(int64(n)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return b.sem.Acquire(ctx, int64(n))
}

// TryTake takes want bytes, or half, a quarter, ... of it, at
// least least; 0 if not even that is free.
func (b *Budget) TryTake(want, least int) int {
	for n := want; n >= least; n /= 2 {
		if b.sem.TryAcquire(int64(n)) {
			return n
		}
	}
	return 0
}

// TakeSome is TryTake that waits until least bytes are free if fewer are. It returns how many it
// has taken, 0 with an error.
func (b *Budget) TakeSome(ctx context.Context, want, least int) (int, error) {
	if n := b.TryTake(want, least); n > 0 {
		return n, nil
	}
	if err := b.Take(ctx, least); err != nil {
		return 0, err
	}
	return least, nil
}

// Give gives n bytes back.
func (b *Budget) Give(n int) {
	if n > 0 {
		b.sem.Release(int64(n))
	}
}

// Memory is what the connections of a server share.
type Memory struct {
	Budget   *Budget // of requests and answers
	Fetched  FetchBuffers
	requests requestBuffers
}

// NewMemory returns memory of which size bytes may be held at a time.
func NewMemory(size int) *Memory { return &Memory{Budget: NewBudget(size)} }
