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
	broker    *broker // whose listener it came in by
	transport *transport.Conn
	secure    *secureConn // below transport; nil: there is no TLS
	host      string
	port      string // empty: unknown

	// Of the listener, and immutable once the connection runs.
	listener string // its name
	security Security
	sasl     *authentication // nil: there is no SASL

	// lastFetch has the bytes of the last fetch that did not wait. Only one fetch runs at a time.
	lastFetch int

	owner   atomic.Pointer[owner] // see own
	ownedBy string                // its name; set before the first request that needs it is served

	handlers sync.WaitGroup
	waits    chan *execution // to the goroutine of serveWaiting, nil before the first; for run

	// The connection is muted (KIP-219) until this time, in ns since the Unix epoch: the client was
	// told to wait.
	muted atomic.Int64

	authenticated atomic.Pointer[Principal] // see principal; nil: nobody, as there was no authentication
	software      atomic.Pointer[software]  // of the client; nil: it has not said
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

// authenticate gets the client's identity as far as it is known before the first request.
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

// serveNext reads a request, and starts it. An error ends the connection.
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

// leaveAlone closes the connection after a delay in which it is not served. Otherwise a client that
// connects again at once, many times, would use more resources than a served one. Kafka:
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

// logPanic recovers from a panic in serving one connection, so that other connections continue.
func (c *conn) logPanic(what any) {
	c.s.log.Error("panic while serving a request: the connection is closed", "conn", c.id, "remote", c.host, "panic", what, "stack", string(debug.Stack()))
}
