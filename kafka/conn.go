package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxWrite is how much is written at a time: what a slow client must take within Limits.SlowReader.
const maxWrite = 1 << 20

// maxPipelined bounds the requests of a connection that are under way at a time; more are left in
// the socket.
const maxPipelined = 1024

// maxHeld is from how many bytes of requests that are not answered on a connection's next request
// is left in the socket.
const maxHeld = 1 << 20

// conn is one client's connection. Its goroutine, run, reads requests and starts them in order;
// whoever completes the oldest one writes the answers that are ready.
type conn struct {
	s      *Server
	id     uint64
	broker *broker // whose listener it came in by
	nc     net.Conn
	host   string

	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	waiting  context.Context // ends with ctx, or when the server shuts down
	endWaits context.CancelFunc

	// bytes of the last fetch that did not wait; requests but produce come one after the other
	lastFetch int

	progress chan struct{} // has an element if a reply was completed since the reader looked
	handlers sync.WaitGroup
	held     atomic.Int64 // bytes of the requests in queue, or being written
	muted    atomic.Int64 // until then, in ns since the Unix epoch, requests are left alone: the client was told to wait

	mu       sync.Mutex
	queue    []*reply  // in the order of the requests; the done ones at the front wait to be written
	pending  int       // replies that are not done
	writing  bool      // somebody writes
	answered time.Time // when the last answer was written
	closed   bool
	draining bool
}

// reply is the place of an answer in the order of the connection.
type reply struct {
	out     [][]byte // the framed answer in pieces, the first of which is a buffer of ours; nil: there is none
	frame   *frame   // the request; its bytes are used until the reply is written
	charged int      // of the server's budget, for the answer
	fetched []byte   // where its records were read to, goes back to the server's buffers
	recycle bool     // the request's bytes may be used again afterwards
	close   bool     // the connection is closed instead of an answer
	done    bool
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

// run serves the connection until it ends.
func (c *conn) run() {
	r := &reader{s: c.s, conn: c, in: input{conn: c}, first: time.Now().Add(c.s.limits.FirstRequest)}
	var err error
	for err == nil {
		var f *frame
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
	if errors.Is(err, errMalformed) {
		c.s.log.Info("connection closed", "remote", c.host, "conn", c.id, "error", err)
	}
	c.close()
	c.handlers.Wait()
}

// throttle has the requests that come after this one wait for d (Kafka: the channel is muted,
// KIP-219).
func (c *conn) throttle(d time.Duration) { c.muted.Store(time.Now().Add(d).UnixNano()) }

// awaitThrottle waits until the client may be served again, or the connection drains or ends.
func (c *conn) awaitThrottle() {
	until := c.muted.Load()
	if until == 0 {
		return
	}
	t := time.NewTimer(time.Until(time.Unix(0, until)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.waiting.Done():
	}
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

// takeDoneLocked takes the done replies out of the queue of a closed connection, for the caller to
// free. Nobody else sees them any more: each is freed once, by who closes, by the writer, or by who
// completed it.
func (c *conn) takeDoneLocked() []*reply {
	var done []*reply
	c.queue = slices.DeleteFunc(c.queue, func(r *reply) bool {
		if r.done {
			done = append(done, r)
		}
		return r.done
	})
	return done
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

// awaitPending waits until at most n requests are under way; with 0, until their answers are
// written too.
func (c *conn) awaitPending(n int) error {
	for {
		c.mu.Lock()
		under := c.pending
		if n == 0 && c.draining {
			under = len(c.queue)
		}
		c.mu.Unlock()
		if under <= n {
			return nil
		}
		if err := c.await(); err != nil {
			return err
		}
	}
}

// await waits until a reply was completed or written.
func (c *conn) await() error {
	select {
	case <-c.progress:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// dispatch starts a request. An error ends the connection.
func (c *conn) dispatch(f *frame) error {
	a := c.s.apis[f.key()]
	version := f.version()
	if a == nil || version < a.min || version > a.max {
		if Key(f.key()) != ApiVersions || a == nil {
			c.s.budget.give(f.charged)
			return errMalformed
		}
		return c.futureApiVersions(f, a)
	}
	req := kmsg.RequestForKey(f.key())
	req.SetVersion(version)
	clientID, body, err := f.header(req.IsFlexible())
	if err == nil {
		err = f.decode(c, a, req, body)
	}
	if err != nil {
		c.s.budget.give(f.charged)
		return errors.Join(errMalformed, err)
	}
	e := &execution{
		call: call{ctx: c.ctx, s: c.s, conn: c, broker: c.broker.id, view: c.broker.view, groups: c.broker.groups, version: version, clientID: clientID, clientHost: c.host},
		api:  a, req: req, reply: &reply{frame: f, recycle: a.key == Produce && c.s.cfg.Intercept == nil}, correlation: f.correlation(),
	}
	if a.start == nil {
		err = c.awaitPending(0)
	} else {
		err = c.awaitPending(maxPipelined - 1)
	}
	if err != nil {
		c.s.budget.give(f.charged)
		return err
	}
	c.enqueue(e.reply)
	return e.begin()
}

func (c *conn) enqueue(r *reply) {
	c.held.Add(int64(r.frame.charged))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, r)
	c.pending++
}

// complete marks a reply done and writes what is ready. wait says that the caller may block; if
// not, another goroutine writes.
func (c *conn) complete(r *reply, wait bool) {
	c.mu.Lock()
	r.done = true
	c.pending--
	lead := !c.writing && !c.closed && c.queue[0] == r
	if lead {
		c.writing = true
		if !wait {
			c.handlers.Add(1)
		}
	}
	var left []*reply
	if c.closed {
		left = c.takeDoneLocked()
	}
	c.mu.Unlock()
	select {
	case c.progress <- struct{}{}:
	default:
	}
	for _, r := range left {
		c.free(r)
	}
	switch {
	case lead && wait:
		c.write()
	case lead:
		go func() {
			defer c.handlers.Done()
			c.write()
		}()
	}
}

// write writes the answers at the front of the queue until the next one is not done.
func (c *conn) write() {
	var ready []*reply
	for {
		c.mu.Lock()
		n := 0
		for n < len(c.queue) && c.queue[n].done {
			n++
		}
		if n == 0 {
			c.writing = false
			c.answered = time.Now()
			c.mu.Unlock()
			return
		}
		ready = append(ready[:0], c.queue[:n]...)
		left := copy(c.queue, c.queue[n:])
		clear(c.queue[left:])
		c.queue = c.queue[:left]
		closed := c.closed
		c.mu.Unlock()
		if !closed {
			if err := c.send(ready); err != nil {
				c.cancel()
				c.nc.Close() // the reader notices
				c.mu.Lock()
				c.closed = true
				ready = append(ready, c.takeDoneLocked()...)
				c.mu.Unlock()
			}
		}
		for _, r := range ready {
			c.free(r)
		}
		select {
		case c.progress <- struct{}{}:
		default:
		}
	}
}

// send writes answers: small ones together, the pieces of large ones without copying them, in steps
// that each have their time.
func (c *conn) send(replies []*reply) error {
	var pieces net.Buffers
	size := 0
	flush := func() error {
		c.nc.SetWriteDeadline(time.Now().Add(c.s.limits.SlowReader))
		_, err := pieces.WriteTo(c.nc)
		pieces, size = pieces[:0], 0
		return err
	}
	for _, r := range replies {
		if r.close {
			flush()
			return io.EOF
		}
		for _, p := range r.out {
			for len(p) > 0 {
				step := p[:min(len(p), maxWrite-size)]
				pieces, size = append(pieces, step), size+len(step)
				p = p[len(step):]
				if size < maxWrite {
					continue
				}
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if size == 0 {
		return nil
	}
	return flush()
}

// free gives back what a reply holds.
func (c *conn) free(r *reply) {
	c.s.budget.give(r.charged + r.frame.charged)
	c.held.Add(-int64(r.frame.charged))
	if len(r.out) > 0 {
		keepBuffer(r.out[0])
	}
	if r.recycle {
		c.s.requests.keep(r.frame.buf)
	}
	c.s.fetched.keep(r.fetched)
	r.out, r.fetched, r.frame = nil, nil, &frame{}
	r.charged = 0
}

// framed encodes an answer, in pieces that are to be written one after the other.
func framed(correlation int32, resp kmsg.Response) [][]byte {
	out := takeBuffer(4 << 10)
	if out == nil {
		out = make([]byte, 0, 512)
	}
	out = append(out, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(correlation))
	if resp.IsFlexible() && Key(resp.Key()) != ApiVersions {
		out = append(out, 0)
	}
	var pieces [][]byte
	if fetch, ok := resp.(*kmsg.FetchResponse); ok {
		pieces = appendFetch(out, fetch)
	} else {
		pieces = [][]byte{resp.AppendTo(out)}
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	binary.BigEndian.PutUint32(pieces[0], uint32(size-4))
	return pieces
}

// logPanic is the last defence: a fault in serving one connection must not take the others with it.
func (c *conn) logPanic(what any) {
	c.s.log.Error("panic while serving a request: the connection is closed", "conn", c.id, "remote", c.host, "panic", what, "stack", string(debug.Stack()))
}
