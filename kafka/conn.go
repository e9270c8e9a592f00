package kafka

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeld bounds the bytes of a connection's unanswered requests: above it the next request stays
// in the socket.
const maxHeld = 1 << 20

// conn is one client's connection. Its goroutine, run, reads requests and starts them in order;
// whoever completes the oldest one writes the answers that are ready.
type conn struct {
	s      *Server
	id     uint64
	broker *broker  // whose listener it came in by
	nc     net.Conn // a *secureConn if there is TLS
	host   string

	// Of the listener, and immutable once the connection runs.
	listener string // its name
	security Security
	sasl     *authentication // nil: there is no SASL

	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	waiting  context.Context // ends with ctx, or when the server shuts down
	endWaits context.CancelFunc

	// lastFetch has the bytes of the last fetch that did not wait. Only one fetch runs at a time.
	lastFetch int

	progress chan struct{} // has an element if a reply was completed since the reader looked
	handlers sync.WaitGroup
	waits    chan *execution // to the goroutine of serveWaiting, nil before the first; for run
	held     atomic.Int64    // bytes of the requests in queue, or being written

	// The connection is muted (KIP-219) until this time, in ns since the Unix epoch: the client was
	// told to wait.
	muted atomic.Int64

	authenticated atomic.Pointer[Principal] // see principal; nil: nobody, as there was no authentication

	mu       sync.Mutex
	queue    []*reply  // in the order of the requests; the done ones at the front wait to be written
	pending  int       // replies that are not done
	writing  bool      // somebody writes
	answered time.Time // when the last answer was written
	closed   bool
	draining bool
}

func newConn(s *Server, broker *broker, nc net.Conn) *conn {
	c := &conn{s: s, id: s.connID.Add(1), broker: broker, nc: nc, progress: make(chan struct{}, 1)}
	c.host = "/" + remoteHost(nc.RemoteAddr())
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.waiting, c.endWaits = context.WithCancel(c.ctx)
	return c
}

func remoteHost(a net.Addr) string {
	if a == nil {
		return "unknown"
	}
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}

// authenticate finds out who the client is, as far as it says so before its first request.
func (c *conn) authenticate(deadline time.Time) error {
	sc, ok := c.nc.(*secureConn)
	if !ok {
		return nil
	}
	if err := c.handshake(sc, deadline); err != nil {
		c.s.log.Info("authentication failed", "remote", c.host, "conn", c.id, "listener", c.listener, "error", err)
		return err
	}
	if c.sasl == nil {
		c.s.log.Info("connection authenticated", "remote", c.host, "conn", c.id, "listener", c.listener, "principal", c.principal())
	}
	return nil
}

// run serves the connection until it ends.
func (c *conn) run() {
	r := &reader{s: c.s, conn: c, in: input{conn: c}, first: time.Now().Add(c.s.limits.FirstRequest)}
	err := c.authenticate(r.first)
	for err == nil {
		var f *frame
		if c.sasl != nil {
			if err = c.serveTokens(r); err != nil {
				break
			}
		}
		if f, err = r.next(); err == nil {
			c.awaitThrottle()
			err = c.dispatch(f)
		}
		for err == nil && c.held.Load() >= maxHeld {
			err = c.await()
		}
	}
	r.in.close()
	if c.isDraining() {
		c.awaitPending(0)
	}
	c.farewell()
	if errors.Is(err, errMalformed) {
		c.s.log.Info("connection closed", "remote", c.host, "conn", c.id, "error", err)
	}
	c.close()
	if c.waits != nil {
		close(c.waits)
	}
	c.handlers.Wait()
	c.endShareSessions()
}

// leaveAlone closes the connection after a time in which it is not served: a client that connects
// again at once, and at once again, would otherwise use more than one that is. Kafka:
// Acceptor.DelayedCloseSocket.
func (c *conn) leaveAlone(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.waiting.Done():
	}
	c.close()
}

func (c *conn) close() {
	c.cancel()
	c.nc.Close()
	c.mu.Lock()
	c.closed = true
	left := c.takeDoneLocked() // the others give back what they hold when they are completed
	c.mu.Unlock()
	for _, r := range left {
		c.free(r)
	}
}

// drain ends the connection after the requests that have been read.
func (c *conn) drain() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.endWaits()
	c.readBy(time.Time{})
}

// readBy sets when reading ends for lack of bytes: at once if the connection is draining.
func (c *conn) readBy(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		t = time.Unix(1, 0)
	}
	c.nc.SetReadDeadline(t)
}

func (c *conn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// lastActive returns when the client was last served: now if a request is under way, since it waits
// and is not idle. It is the zero time if the connection drains, or was not answered yet.
func (c *conn) lastActive() (t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.draining:
	case c.busyLocked():
		t = time.Now()
	default:
		t = c.answered
	}
	return t
}

// busyLocked reports whether a request is under way, or its answer.
func (c *conn) busyLocked() bool { return len(c.queue) > 0 || c.writing }

// logPanic is the last defence: a fault in serving one connection must not take the others with it.
func (c *conn) logPanic(what any) {
	c.s.log.Error("panic while serving a request: the connection is closed", "conn", c.id, "remote", c.host, "panic", what, "stack", string(debug.Stack()))
}
