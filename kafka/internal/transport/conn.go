package transport

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeld bounds the bytes of a connection's unanswered requests: above it the next request stays
// in the socket.
const maxHeld = 1 << 20

// Limits bound the time of clients. None may be 0.
type Limits struct {
	FirstRequest time.Duration // until a new connection has sent a request, and is trusted
	WholeRequest time.Duration // from a request's first byte to its last
	Idle         time.Duration // between requests
	SlowReader   time.Duration // a client takes nothing of an answer that waits for it
}

// A Conn is the bytes of one client's connection.
type Conn struct {
	nc      net.Conn // a MessageWriter if it is better not written to piece by piece
	memory  *Memory
	limits  Limits
	largest func(key int16) int

	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	waiting  context.Context // ends with ctx, or when the connection drains
	endWaits context.CancelFunc

	// Of the goroutine that reads.
	in    input
	first time.Time // when the first request must be there, and the client trusted; zero: it is

	trusted  atomic.Bool
	progress chan struct{}  // has an element if a request was answered since the reader looked
	writers  sync.WaitGroup // goroutines that write
	held     atomic.Int64   // bytes of the requests in queue, or whose answers are being written

	mu       sync.Mutex // guards the fields below
	queue    []*Request // in the order in which they came; the done ones at the front wait to be written
	pending  int        // requests that are not done
	writing  bool       // somebody writes
	answered time.Time  // when the last answer was written
	closed   bool
	draining bool
}

// New returns the connection of a client. It reads nothing before Next does, and ends with ctx.
// largest returns the most bytes that a request may have, by the key of its API; the goroutine that
// reads calls it, before it has read more than six bytes of the request.
func New(ctx context.Context, nc net.Conn, m *Memory, l Limits, largest func(key int16) int) *Conn {
	c := &Conn{nc: nc, memory: m, limits: l, largest: largest, first: time.Now().Add(l.FirstRequest), progress: make(chan struct{}, 1)}
	c.in.conn = c
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.waiting, c.endWaits = context.WithCancel(c.ctx)
	return c
}

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Waiting ends with the connection, or when it drains: whoever waits for something must come to an
// end.
func (c *Conn) Waiting() context.Context { return c.waiting }

// FirstBy returns when the first request must be there, and the client trusted.
func (c *Conn) FirstBy() time.Time { return c.first }

// Trust has Limits.FirstRequest no longer count from the next request on. Any goroutine may call
// it.
func (c *Conn) Trust() { c.trusted.Store(true) }

// Trusted reports whether Trust was called.
func (c *Conn) Trusted() bool { return c.trusted.Load() }

// AwaitPending waits until at most n requests are under way: the answers to the others may still
// be on their way. An error says that the connection has ended.
func (c *Conn) AwaitPending(n int) error {
	return c.awaitUntil(func() bool { return c.pending <= n })
}

// Finish has those who wait for something come to an end, and waits until all requests that were
// read are answered, and their answers written, or the connection has ended.
func (c *Conn) Finish() {
	c.endWaits()
	_ = c.awaitUntil(func() bool { return len(c.queue) == 0 && !c.writing })
}

// awaitUntil waits until done, which runs under c.mu. An error says that the connection has ended.
func (c *Conn) awaitUntil(done func() bool) error {
	for {
		c.mu.Lock()
		over := done()
		c.mu.Unlock()
		if over {
			return nil
		}
		if err := c.await(); err != nil {
			return err
		}
	}
}

// awaitRoom waits until the unanswered requests are small enough for another one to be read.
func (c *Conn) awaitRoom() error {
	for c.held.Load() >= maxHeld {
		if err := c.await(); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a request was answered, or an answer written.
func (c *Conn) await() error {
	select {
	case <-c.progress:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// wake tells await.
func (c *Conn) wake() {
	select {
	case c.progress <- struct{}{}:
	default:
	}
}

// StopReading gives back what reading holds. Next and Token must not be called any more.
func (c *Conn) StopReading() { c.in.close() }

// Close ends the connection at once. What its requests hold that are answered is given back, the
// others give it back when they are.
func (c *Conn) Close() {
	c.cancel()
	c.nc.Close()
	c.mu.Lock()
	c.closed = true
	left := c.takeDoneLocked()
	c.mu.Unlock()
	for _, r := range left {
		r.release()
	}
}

// Wait waits until nobody writes, after Close.
func (c *Conn) Wait() { c.writers.Wait() }

// HangUp closes the connection below, for the goroutine that reads to notice. Any goroutine may
// call it.
func (c *Conn) HangUp() { c.nc.Close() }

// Drain ends the connection after the requests that have been read: Next fails then, with
// ErrDraining or as if nothing came.
func (c *Conn) Drain() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.endWaits()
	c.ReadBy(time.Time{})
}

// Draining reports whether Drain was called.
func (c *Conn) Draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// ReadBy sets when reading ends for lack of bytes: at once if the connection is draining.
func (c *Conn) ReadBy(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		t = time.Unix(1, 0)
	}
	c.nc.SetReadDeadline(t)
}

// Writing reports whether an answer is being written.
func (c *Conn) Writing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writing
}

// lastActive returns when the client was last served: now if a request is under way, since it waits
// and is not idle. It is the zero time if the connection drains, or was not answered yet.
func (c *Conn) lastActive() (t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.draining:
	case len(c.queue) > 0 || c.writing:
		t = time.Now()
	default:
		t = c.answered
	}
	return t
}
