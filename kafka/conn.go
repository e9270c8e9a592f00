package kafka

import (
	"errors"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/kafka/internal/transport"
)

// errMalformed closes the connection, because later bytes cannot be interpreted.
var errMalformed = transport.ErrMalformed

// conn is one client's connection. Its goroutine, run, reads requests and starts them in order. The
// goroutine that completes the oldest request writes the responses that are ready.
type conn struct {
	s         *Server
	id        uint64
	broker    *broker // of the listener that accepted it
	transport *transport.Conn
	secure    *secureConn // below transport; nil without TLS
	host      string
	port      string // empty: unknown

	// Of the listener, and immutable once the connection runs.
	listener string // name of the listener
	security Security
	sasl     *authentication // nil without SASL

	// lastFetch is the number of bytes that tryFetch last read. It is the hint for the size of the
	// next buffer. Only one fetch runs at a time.
	lastFetch int

	owner   atomic.Pointer[owner] // see own
	ownedBy string                // name of owner; set before a request uses it

	handlers sync.WaitGroup
	waits    chan *execution // to the goroutine of serveWaiting; nil before the first; used by run

	// Until this time the connection is muted (KIP-219), because a response had a throttle time.
	// In ns since the Unix epoch; 0: never muted.
	muted atomic.Int64

	authenticated atomic.Pointer[Principal] // nil: not authenticated; see principal
	software      atomic.Pointer[software]  // of the client; nil before its ApiVersions
}

// newConn returns the connection of a client that l has accepted. It sends and receives nothing
// before run is called.
func newConn(s *Server, l *listener, nc net.Conn) *conn {
	c := &conn{s: s, id: s.connID.Add(1), broker: l.broker, listener: l.name, security: l.security, host: "/" + remoteHost(nc.RemoteAddr()), port: remotePort(nc.RemoteAddr())}
	if l.security.SASL != nil {
		c.sasl = &authentication{cfg: l.security.SASL}
	}
	if l.security.TLS != nil {
		c.secure = newSecureConn(c, nc, l.security.TLS)
		nc = c.secure
	}
	c.transport = transport.New(s.ctx, nc, s.memory, s.limits.times(), c.largest)
	if c.sasl != nil {
		c.transport.AsGuest()
	}
	return c
}

// largest returns the largest size of a request, in bytes.
func (c *conn) largest(key int16) int {
	most := c.s.limits.RequestBytes
	if a := c.s.apis[key]; Key(key) != Produce && a != nil {
		most = min(most, c.s.memory.Budget.Size()/a.inflation)
	}
	if a := c.sasl; a != nil && !c.transport.Trusted() {
		most = min(most, a.cfg.MaxReceiveBytes, c.s.memory.Guests.Size())
	}
	return most
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

func remotePort(a net.Addr) string {
	if a == nil {
		return ""
	}
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// authenticate runs the TLS handshake. A client certificate sets the principal if there is no
// SASL. Without TLS it does nothing.
func (c *conn) authenticate() error {
	if c.secure == nil {
		return nil
	}
	if err := c.handshake(c.transport.FirstBy()); err != nil {
		if errors.Is(err, io.EOF) { // a port check, which sends nothing
			if dropped, ok := c.s.strangers.next(); ok {
				c.s.log.Info("connection closed before it authenticated", "remote", c.host, "conn", c.id, "listener", c.listener, "lines left out", dropped)
			}
		} else {
			c.loginFailed(err)
		}
		return err
	}
	if c.sasl == nil {
		c.s.log.Info("connection authenticated", "remote", c.host, "conn", c.id, "listener", c.listener, "principal", c.principal())
	}
	return nil
}

// run serves the connection until it ends.
func (c *conn) run() {
	err := c.authenticate()
	if c.sasl == nil {
		c.own()
	}
	for err == nil {
		err = c.serveNext()
	}
	t := c.transport
	t.StopReading()
	if t.Draining() || errors.Is(err, errMalformed) || errors.Is(err, errRefused) {
		t.Finish() // earlier requests are answered
	}
	c.farewell()
	if errors.Is(err, errMalformed) {
		if dropped, ok := c.s.closures.next(); ok {
			c.s.log.Info("connection closed", "remote", c.host, "conn", c.id, "error", err, "lines left out", dropped)
		}
	}
	t.Close()
	if c.waits != nil {
		close(c.waits)
	}
	c.handlers.Wait()
	t.Wait()
	c.disown()
	c.broker.telemetry.Disconnected(c.id)
	c.broker.fetches.abandon(c)
	c.endShareSessions()
}

// serveNext reads a request and starts it. An error ends the connection.
func (c *conn) serveNext() error {
	if c.sasl != nil {
		if err := c.serveTokens(); err != nil {
			return err
		}
	}
	r, err := c.transport.Next()
	if err != nil {
		return err
	}
	if c.sasl == nil {
		c.transport.Trust()
	}
	c.awaitThrottle()
	return c.dispatch(r)
}

// leaveAlone closes the connection after a delay in which it serves no request. A client that
// reconnects many times would otherwise use more resources than a client that is served. Kafka:
// Acceptor.DelayedCloseSocket.
func (c *conn) leaveAlone(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.transport.Waiting().Done():
	}
	c.transport.Close()
}

// logPanic logs a panic that was recovered while a request was served. Only the connection of that
// request is closed.
func (c *conn) logPanic(what any) {
	c.s.log.Error("panic while serving a request: the connection is closed", "conn", c.id, "remote", c.host, "panic", what, "stack", string(debug.Stack()))
}
