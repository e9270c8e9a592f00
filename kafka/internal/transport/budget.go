package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// smallTake is the largest take that may use the reserve of a budget.
	smallTake = 64 << 10
	// firstLook and laterLook are the times after which a waiting take has stalled holders ended.
	firstLook = 250 * time.Millisecond
	laterLook = 50 * time.Millisecond
)

// A Budget is the bytes that all connections of a server together may hold. Its methods are safe
// for concurrent use.
//
// An eighth of it is a reserve for takes of at most smallTake bytes: a few large requests do not
// hold up small ones. A quarter is left by large takes of requests: the answers to the requests
// that are there need memory before these give theirs back. Takes are served in this order: small
// ones, answers, requests. Small ones are served as they come, the others first for the owner that
// holds least. The first of the others collects bytes as they are given back, so that small ones
// cannot starve it.
type Budget struct {
	size    int
	reserve int
	// relieve ends connections that hold bytes and make no progress, while a take of n bytes by an
	// owner waits. nil: no connection is ended.
	relieve func(n int, by *Owner)

	mu       sync.Mutex // guards the fields below; a leaf, held for a few instructions
	free     int        // may be negative, see Charge
	small    []*take    // waiting, in the order of their arrival
	answers  []*take    // all other large ones
	requests []*take    // large ones of requests
}

// An Owner is a principal or a host, whose connections share a budget with others. nil is
// an owner of its own.
type Owner struct {
	held atomic.Int64 // bytes of the budget
}

// holds returns how many bytes the connections of an owner hold.
func (o *Owner) holds() int64 {
	if o == nil {
		return 0
	}
	return o.held.Load()
}

func (o *Owner) add(n int) {
	if o != nil {
		o.held.Add(int64(n))
	}
}

// A take waits for bytes of a budget.
type take struct {
	n, has  int           // has: bytes that a large take has collected
	ready   chan struct{} // closed when has is n
	request bool          // bytes of a request that is being read
	by      *Owner
	of      *Conn // closed if its client has gone; nil: of no connection
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int) *Budget { return &Budget{size: size, reserve: size / 8, free: size} }

// Size returns the size of the budget in bytes.
func (b *Budget) Size() int { return b.size }

// floor returns how many bytes a take leaves free.
func (b *Budget) floor(t *take) int {
	switch {
	case t.n <= smallTake:
		return 0
	case t.request:
		return max(0, min(2*b.reserve, b.size-t.n))
	default:
		return max(0, min(b.reserve, b.size-t.n))
	}
}

// try takes t's bytes if they are free, and if no take that is served before t is waiting.
func (b *Budget) try(t *take) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	large := t.n > smallTake
	switch {
	case len(b.small) > 0, large && len(b.answers) > 0, large && t.request && len(b.requests) > 0, b.free-t.n < b.floor(t):
		return false
	}
	b.free -= t.n
	t.by.add(t.n)
	return true
}

// Take waits until n bytes are free, and takes them for an owner. It returns the error of ctx if
// ctx ends first.
func (b *Budget) Take(ctx context.Context, n int, by *Owner) error {
	return b.wait(ctx, &take{n: n, by: by})
}

// wait waits until the bytes of t are taken.
func (b *Budget) wait(ctx context.Context, t *take) error {
	if b.try(t) {
		return nil
	}
	t.ready = make(chan struct{})
	b.mu.Lock()
	queue := b.queueOf(t)
	*queue = append(*queue, t)
	b.grantLocked()
	b.mu.Unlock()
	look := time.NewTimer(firstLook)
	defer look.Stop()
	for {
		select {
		case <-t.ready:
			return nil
		case <-ctx.Done():
			b.abandon(t)
			return ctx.Err()
		case <-look.C:
			if t.of != nil && t.of.Gone() {
				break // its context has ended
			}
			if b.relieve != nil && b.isNext(t) {
				b.relieve(t.n, t.by)
			}
			look.Reset(laterLook)
		}
	}
}

// isNext reports whether t is the first take of its owner in its queue. Connections are ended only
// for such takes. A thousand takes that check all connections every laterLook would keep the
// processors busy.
func (b *Budget) isNext(t *take) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range *b.queueOf(t) {
		if other == t || other.by == t.by {
			return other == t
		}
	}
	return false
}

func (b *Budget) queueOf(t *take) *[]*take {
	switch {
	case t.n <= smallTake:
		return &b.small
	case t.request:
		return &b.requests
	default:
		return &b.answers
	}
}

// abandon removes t from its queue and returns its bytes.
func (b *Budget) abandon(t *take) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := b.queueOf(t)
	*queue = without(*queue, t)
	b.free += t.has
	t.by.add(-t.has)
	b.grantLocked()
}

func without(queue []*take, t *take) []*take {
	for i, other := range queue {
		if other == t {
			return append(queue[:i:i], queue[i+1:]...)
		}
	}
	return queue
}

// grantLocked gives free bytes to waiting takes.
func (b *Budget) grantLocked() {
	for len(b.small) > 0 && b.small[0].n <= b.free {
		b.giveLocked(b.small[0], b.small[0].n)
		b.small = b.small[1:]
	}
	if len(b.small) == 0 && b.collectLocked(&b.answers) {
		b.collectLocked(&b.requests)
	}
}

// collectLocked gives free bytes to the takes of a queue, one after the other. It reports whether
// the queue is empty.
func (b *Budget) collectLocked(queue *[]*take) bool {
	for len(*queue) > 0 {
		q := *queue
		if q[0].has == 0 { // a take that collects is served before others begin
			for i, t := range q {
				if t.by.holds() < q[0].by.holds() {
					copy(q[1:i+1], q[:i])
					q[0] = t
				}
			}
		}
		t := q[0]
		b.giveLocked(t, min(t.n-t.has, b.free-b.floor(t)))
		if t.has < t.n {
			return false
		}
		*queue = q[1:]
	}
	return true
}

// giveLocked gives n bytes, if n is positive, to a waiting take.
func (b *Budget) giveLocked(t *take, n int) {
	if n > 0 {
		b.free, t.has = b.free-n, t.has+n
		t.by.add(n)
	}
	if t.has == t.n {
		close(t.ready)
	}
}

// takeRequest is wait for bytes of a request that is being read. It gives up after d: its
// connection already holds bytes, and such connections must not wait for each other.
func (b *Budget) takeRequest(ctx context.Context, t *take, d time.Duration) error {
	t.request = true
	if b.try(t) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return b.wait(ctx, t)
}

// TryTake takes want bytes, or half, a quarter, ... of that, but at least least. It returns the
// number of bytes taken; 0 if not even least are free.
func (b *Budget) TryTake(want, least int, by *Owner) int {
	for n := want; n >= least; n /= 2 {
		if b.try(&take{n: n, by: by}) {
			return n
		}
	}
	return 0
}

// Charge takes n bytes that are already in use, without waiting: later takes wait until they have
// been returned.
func (b *Budget) Charge(n int, by *Owner) {
	if n > 0 {
		b.mu.Lock()
		b.free -= n
		b.mu.Unlock()
		by.add(n)
	}
}

// Give returns n bytes of an owner.
func (b *Budget) Give(n int, by *Owner) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free += n; b.free > b.size {
		panic("kafka: more bytes were given back than taken")
	}
	by.add(-n)
	b.grantLocked()
}
