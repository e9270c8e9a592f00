package transport

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxHeld bounds the bytes of a connection's requests, and of their responses until they are
// written. Above it the next request stays in the socket.
const maxHeld = 1 << 20

// Limits bound the time of clients. None may be 0.
type Limits struct {
	FirstRequest time.Duration // until a new connection has sent a request and is trusted
	WholeRequest time.Duration // from a request's first byte to its last, or to the next requestPart
	Idle         time.Duration // between requests
	SlowReader   time.Duration // for a client that reads no byte of a pending response
}

// A Conn handles the bytes of one client's connection.
type Conn struct {
	nc      net.Conn     // a MessageWriter if it has a better way to write several pieces
	socket  syscall.Conn // the socket below nc; nil if there is none
	memory  *Memory
	limits  Limits
	largest func(key int16) int

	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	waiting  context.Context // ends with ctx, or when the connection drains
	endWaits context.CancelFunc

	// Of the goroutine that reads.
	in    input
	first time.Time // deadline for the first request and for Trust; zero once it is trusted

	by       atomic.Pointer[Owner]
	guest    atomic.Bool // uses Memory.Guests until it is trusted
	trusted  atomic.Bool
	drained  atomic.Int64   // time of Drain, in ns since the Unix epoch; 0 before
	progress chan struct{}  // has an element if a request was answered since the last await
	writers  sync.WaitGroup // goroutines that write
	held     atomic.Int64   // bytes of queued requests, and of their responses until they are written
	looked   atomic.Int64   // when Gone last checked for the client, in ns since the Unix epoch

	// For Memory.relieve.
	charged   atomic.Int64 // bytes of budgets that the connection holds
	early     atomic.Int64 // bytes of Memory.Guests for the TLS handshake
	moved     atomic.Int64 // time at which the client was last on schedule, in ns since the Unix epoch
	receiving atomic.Bool  // a part of a request has been read
	part      int          // bytes of the request since the last deadline of reads; of the reader
	since     atomic.Int64 // start of its wait for a budget, in ns since the Unix epoch; 0: none
	cut       atomic.Bool  // ended by Memory.relieve

	mu       sync.Mutex // guards the fields below
	queue    []*Request // in order of arrival; done requests at the front wait to be written
	pending  int        // requests that are not done
	writing  bool       // a goroutine is writing
	answered time.Time  // when the last answer was written
	closed   bool
	draining bool
}

// New returns the connection of a client, which ends with ctx. It reads nothing before Next does.
// largest returns the maximum size of a request in bytes, by the key of its API. The goroutine
// that reads calls it before it has read more than six bytes of the request.
func New(ctx context.Context, nc net.Conn, m *Memory, l Limits, largest func(key int16) int) *Conn {
	c := &Conn{nc: nc, memory: m, limits: l, largest: largest, first: time.Now().Add(l.FirstRequest), progress: make(chan struct{}, 1)}
	c.socket, c.in.conn = socketOf(nc), c
	c.looked.Store(time.Now().UnixNano())
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.waiting, c.endWaits = context.WithCancel(c.ctx)
	m.add(c)
	return c
}

// AsGuest makes the connection use Memory.Guests until Trust is called. It must be called before
// Next.
func (c *Conn) AsGuest() { c.guest.Store(true) }

// budget returns the budget for later takes.
func (c *Conn) budget() *Budget {
	if c.guest.Load() && !c.trusted.Load() {
		return c.memory.Guests
	}
	return c.memory.Budget
}

// owner returns the owner of the connection's bytes of Memory.Budget; nil before Own.
func (c *Conn) owner() *Owner { return c.by.Load() }

// ownerOf returns the owner of the connection's bytes of a budget; nil for the guests' budget.
func (c *Conn) ownerOf(b *Budget) *Owner {
	if b == c.memory.Guests {
		return nil
	}
	return c.owner()
}

// Own makes the connection share Memory.Budget with the others of an owner. It must be called
// before the first take from it.
func (c *Conn) Own(by *Owner) { c.by.Store(by) }

// take returns a take of n bytes for an owner. The take ends when the client has gone.
func (c *Conn) take(n int, by *Owner) *take { return &take{n: n, by: by, of: c} }

// Take waits until n bytes of the server's budget are free, and takes them for the connection. It
// returns an error if ctx ends first; ctx must be Waiting or end with it.
func (c *Conn) Take(ctx context.Context, n int) error {
	c.waits(true)
	defer c.waits(false)
	if err := c.memory.Budget.wait(ctx, c.take(n, c.owner())); err != nil {
		return err
	}
	c.charged.Add(int64(n))
	return nil
}

// TakeWork waits until n bytes of b, which is not a budget of Memory, are free, and takes them for
// an owner. It returns an error when the connection ends or drains first.
func (c *Conn) TakeWork(b *Budget, n int, by *Owner) error {
	return b.wait(c.waiting, c.take(n, by))
}

// TakeSome takes want bytes, or half, a quarter, ... of that. If fewer than least are free, it
// waits for least. It returns the number of bytes taken, and 0 with an error of Take.
func (c *Conn) TakeSome(ctx context.Context, want, least int) (int, error) {
	if n := c.memory.Budget.TryTake(want, least, c.owner()); n > 0 {
		c.charged.Add(int64(n))
		return n, nil
	}
	if err := c.Take(ctx, least); err != nil {
		return 0, err
	}
	return least, nil
}

// waits records that the connection begins or ends a wait for bytes.
func (c *Conn) waits(begin bool) {
	if begin {
		c.since.Store(time.Now().UnixNano())
	} else {
		c.since.Store(0)
	}
}

// Charge takes n bytes that are already in use, without waiting.
func (c *Conn) Charge(n int) {
	if n > 0 {
		c.charged.Add(int64(n))
		c.memory.Budget.Charge(n, c.owner())
	}
}

// Give returns n bytes that the connection holds.
func (c *Conn) Give(n int) { c.give(c.memory.Budget, n) }

func (c *Conn) give(b *Budget, n int) {
	if n > 0 {
		c.charged.Add(-int64(n))
		b.Give(n, c.ownerOf(b))
	}
}

// TakeEarly waits until n bytes of the guests' budget are free, at most Limits.WholeRequest. It is
// for a handshake before the first request. From then on the client can be late as with a request.
// Only the goroutine that reads may call it.
func (c *Conn) TakeEarly(n int) error {
	if err := c.memory.Guests.takeRequest(c.waiting, c.take(n, nil), c.limits.WholeRequest); err != nil {
		return err
	}
	c.early.Add(int64(n))
	c.begins(time.Now())
	c.receiving.Store(true)
	return nil
}

// GiveEarly returns the bytes of TakeEarly.
func (c *Conn) GiveEarly() {
	c.receiving.Store(false)
	c.memory.Guests.Give(int(c.early.Swap(0)), nil)
}

// begins records that from now on the client must send or read bytes.
func (c *Conn) begins(now time.Time) { c.moved.Store(now.UnixNano()) }

// moves records that the client has sent or read n bytes, which extends its time for the next
// ones.
func (c *Conn) moves(n int) {
	earned := int64(n) * int64(time.Second) / leastRate
	c.moved.Store(min(time.Now().UnixNano(), c.moved.Load()+earned))
}

// requestPart is the part of a large request that must arrive within Limits.WholeRequest.
const requestPart = 64 << 10

// arrived records that n bytes of a request have arrived. Each part of it has a time of its own. It
// does not extend the time of the first request. Only the goroutine that reads may call it.
func (c *Conn) arrived(n int) {
	if c.part += n; c.part >= requestPart && c.first.IsZero() {
		c.part = 0
		c.ReadBy(time.Now().Add(c.limits.WholeRequest))
	}
}

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Waiting ends with the connection, or when it drains: all waits of its requests must end.
func (c *Conn) Waiting() context.Context { return c.waiting }

// FirstBy returns the deadline for the first request and for Trust.
func (c *Conn) FirstBy() time.Time { return c.first }

// Trust ends the deadline of Limits.FirstRequest from the next request on. Any goroutine may call
// it.
func (c *Conn) Trust() { c.trusted.Store(true) }

// Trusted reports whether Trust was called.
func (c *Conn) Trusted() bool { return c.trusted.Load() }

// Pending returns the number of requests in progress. Only the goroutine that reads may call it.
func (c *Conn) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending
}

// AwaitPending waits until at most n requests are in progress. Responses to others may still be
// unwritten. It returns an error if the connection has ended.
func (c *Conn) AwaitPending(n int) error {
	return c.awaitUntil(func() bool { return c.pending <= n })
}

// Finish ends the waits of requests. It waits until all requests that were read are answered and
// their responses written, or until the connection has ended.
func (c *Conn) Finish() {
	c.endWaits()
	_ = c.awaitUntil(func() bool { return len(c.queue) == 0 && !c.writing })
}

// awaitUntil waits until done, which runs under c.mu. It returns an error if the connection has
// ended.
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

// awaitRoom waits until the bytes of requests and unwritten responses are below the limit for
// reading another request.
func (c *Conn) awaitRoom() error {
	most := int64(maxHeld)
	if c.guest.Load() && !c.trusted.Load() {
		most = ownBytes
	}
	for c.held.Load() >= most {
		if err := c.await(); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a request is answered or a response written. Meanwhile the connection is not
// read: Gone detects that the client has closed it.
func (c *Conn) await() error {
	select {
	case <-c.progress:
		return nil
	default:
	}
	var look <-chan time.Time // never, if there is no socket
	if c.socket != nil {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case <-c.progress:
			return nil
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-look:
			c.Gone() // ends the context if the client has gone
		}
	}
}

// wake wakes await.
func (c *Conn) wake() {
	select {
	case c.progress <- struct{}{}:
	default:
	}
}

// StopReading returns the input buffer. Next and Token must not be called after it.
func (c *Conn) StopReading() { c.in.close() }

// Close ends the connection at once. The memory of done requests is returned now, and that for
// others when they are done.
func (c *Conn) Close() {
	c.cancel()
	c.nc.Close()
	c.memory.remove(c)
	c.mu.Lock()
	c.closed = true
	left := c.takeDoneLocked()
	c.mu.Unlock()
	for _, r := range left {
		r.release()
	}
}

// Wait waits, after Close, until no goroutine writes.
func (c *Conn) Wait() { c.writers.Wait() }

// HangUp closes the network connection, and the goroutine that reads gets the error. Any goroutine
// may call it.
func (c *Conn) HangUp() { c.nc.Close() }

// Drain ends the connection after the requests that have been read. Next then fails, with
// ErrDraining or a timeout.
func (c *Conn) Drain() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.drained.CompareAndSwap(0, time.Now().UnixNano())
	c.endWaits()
	c.ReadBy(time.Time{})
	c.nc.SetWriteDeadline(c.readerBy(time.Now()))
}

const (
	// lastReader is the time that clients have for their last responses when the connection
	// drains.
	lastReader = 5 * time.Second
	// lastWork is the time for which requests with much work continue when the connection drains.
	lastWork = time.Second
)

// readerBy returns the time at which a client that reads nothing from now on is closed.
func (c *Conn) readerBy(now time.Time) time.Time {
	by := now.Add(c.limits.SlowReader)
	if at := c.drained.Load(); at != 0 {
		if last := time.Unix(0, at).Add(lastReader); last.Before(by) {
			return last
		}
	}
	return by
}

// Overdue reports whether work for the client must end, because the connection has ended (see
// Gone) or has drained for lastWork. In the second case it ends the connection. Like Gone it is
// for loops over many elements.
func (c *Conn) Overdue() bool {
	at := c.drained.Load()
	if at != 0 && time.Now().UnixNano()-at >= int64(lastWork) {
		c.cancel()
	}
	return c.Gone()
}

// Draining reports whether Drain was called.
func (c *Conn) Draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// ReadBy sets the deadline for reading: at once if the connection is draining.
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

// lastActive returns the time at which the client was last served. It is now if a request is in
// progress, since then the client waits. It is zero if the connection drains, or was not answered
// yet.
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
