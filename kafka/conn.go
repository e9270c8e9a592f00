package kafka

import (
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/kafka/internal/transport"
)

// errMalformed closes the connection: what comes after cannot be trusted.
var errMalformed = transport.ErrMalformed

// conn is one client's connection. Its goroutine, run, reads requests and starts them in order;
// whoever completes the oldest one writes the answers that are ready.
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

	handlers sync.WaitGroup
	waits    chan *execution // to the goroutine of serveWaiting, nil before the first; for run

	// The connection is muted (KIP-219) until this time, in ns since the Unix epoch: the client was
	// told to wait.
	muted atomic.Int64

	authenticated atomic.Pointer[Principal] // see principal; nil: nobody, as there was no authentication
	software      atomic.Pointer[software]  // of the client; nil: it has not said
}

// newConn returns the connection of a client that l has accepted. It sends and receives nothing
// before run does.
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
	return c
}

// largest returns how large a request may be.
func (c *conn) largest(key int16) int {
	most := c.s.limits.RequestBytes
	if a := c.s.apis[key]; Key(key) != Produce && a != nil {
		most = min(most, c.s.memory.Budget.Size()/a.inflation)
	}
	if a := c.sasl; a != nil && !c.transport.Trusted() {
		most = min(most, a.cfg.MaxReceiveBytes)
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

// authenticate finds out who the client is, as far as it says so before its first request.
func (c *conn) authenticate() error {
	if c.secure == nil {
		return nil
	}
	if err := c.handshake(c.transport.FirstBy()); err != nil {
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
	err := c.authenticate()
	for err == nil {
		err = c.serveNext()
	}
	t := c.transport
	t.StopReading()
	if t.Draining() || errors.Is(err, errMalformed) || errors.Is(err, errRefused) {
		t.Finish() // what came before is answered
	}
	c.farewell()
	if errors.Is(err, errMalformed) {
		c.s.log.Info("connection closed", "remote", c.host, "conn", c.id, "error", err)
	}
	t.Close()
	if c.waits != nil {
		close(c.waits)
	}
	c.handlers.Wait()
	t.Wait()
	c.broker.telemetry.Disconnected(c.id)
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

// leaveAlone closes the connection after a time in which it is not served: a client that connects
// again at once, and at once again, would otherwise use more than one that is. Kafka:
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

// logPanic is the last defence: a fault in serving one connection must not take the others with it.
func (c *conn) logPanic(what any) {
	c.s.log.Error("panic while serving a request: the connection is closed", "conn", c.id, "remote", c.host, "panic", what, "stack", string(debug.Stack()))
}
