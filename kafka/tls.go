package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/x500"
	"github.com/stratalog/strata/kafka/internal/transport"
)

// maxHandshake bounds the bytes that a client sends during the TLS handshake. A chain of
// certificates has some kilobytes.
const maxHandshake = 128 << 10

// usualHandshake is the number of bytes of a handshake that are not charged: the number of
// connections bounds them. Further bytes are taken from the guests' budget.
const usualHandshake = 8 << 10

var (
	errHandshakeSize = errors.New("kafka: TLS handshake is too large")
	errNoRule        = errors.New("kafka: no rule makes a principal of the certificate's name")
)

// secureConn is a connection with TLS over raw.
type secureConn struct {
	*tls.Conn
	raw *countedConn
}

// newSecureConn returns the server's side of a connection. It sends and receives nothing;
// handshake does that.
func newSecureConn(c *conn, nc net.Conn, cfg *tls.Config) *secureConn {
	raw := &countedConn{Conn: nc, conn: c}
	raw.counts.Store(true)
	return &secureConn{tls.Server(raw, cfg), raw}
}

// Close cuts the connection at once. Unlike tls.Conn.Close it sends no close_notify, which would
// wait for a client that does not read: see conn.farewell.
func (c *secureConn) Close() error { return c.raw.Close() }

// countedConn is the connection below TLS. The bytes of the handshake are bounded, and charged as
// bytes of requests: crypto/tls keeps them until a message is complete.
type countedConn struct {
	net.Conn
	conn   *conn
	counts atomic.Bool // true during the handshake
	came   int         // bytes of the handshake so far; for the goroutine of run
}

// NetConn returns the connection below c.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.counts.Load() {
		if c.came += n; c.came > maxHandshake {
			return 0, errHandshakeSize
		}
		if c.came > usualHandshake {
			if err := c.conn.transport.TakeEarly(n); err != nil {
				return 0, err
			}
		}
	}
	return n, err
}

// handshake completes TLS before the deadline, and sets the principal from a verified certificate.
func (c *conn) handshake(deadline time.Time) error {
	sc := c.secure
	c.transport.ReadBy(deadline)
	sc.SetWriteDeadline(deadline)
	err := sc.Handshake()
	sc.raw.counts.Store(false)
	c.transport.GiveEarly()
	if err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	if c.sasl != nil {
		return nil // SASL determines the principal, not the certificate, as in Kafka
	}
	state := sc.ConnectionState()
	if len(state.VerifiedChains) == 0 { // an unverified certificate proves nothing
		return nil
	}
	name, err := x500.Name(state.PeerCertificates[0].RawSubject)
	if err != nil {
		return err
	}
	user, ok := c.security.PrincipalRules.rules.Apply(name)
	if !ok {
		return fmt.Errorf("%w: %q", errNoRule, name)
	}
	c.setPrincipal(Principal{Type: PrincipalTypeUser, Name: user})
	return nil
}

// farewell sends close_notify on a connection with TLS, which shows the client that nothing was
// cut off. It does not while a response is being written: the client may not be reading.
func (c *conn) farewell() {
	if c.secure == nil || c.transport.Context().Err() != nil || c.transport.Writing() {
		return
	}
	c.secure.CloseWrite() // waits for at most 5 s, or until the connection is closed
}

// maxRecord is the payload of one record of TLS.
const maxRecord = 16 << 10

// WritePieces writes one or more responses in as few TLS records as their bytes need.
func (c *secureConn) WritePieces(pieces net.Buffers) error {
	if len(pieces) == 1 {
		_, err := c.Write(pieces[0])
		return err
	}
	gathered := transport.TakeBuffer(maxRecord)
	if gathered == nil {
		gathered = transport.NewBuffer(maxRecord)
	}
	defer func() { transport.KeepBuffer(gathered) }()
	for _, p := range pieces {
		for len(p) > 0 {
			if len(gathered) == 0 && len(p) >= maxRecord {
				whole := len(p) - len(p)%maxRecord
				if _, err := c.Write(p[:whole]); err != nil {
					return err
				}
				p = p[whole:]
				continue
			}
			n := min(len(p), maxRecord-len(gathered))
			gathered, p = append(gathered, p[:n]...), p[n:]
			if len(gathered) < maxRecord {
				continue
			}
			if _, err := c.Write(gathered); err != nil {
				return err
			}
			gathered = gathered[:0]
		}
	}
	if len(gathered) == 0 {
		return nil
	}
	_, err := c.Write(gathered)
	return err
}

// certificateError returns the reason for which a client that connects to host would reject the
// listener's certificate now. It returns nil without TLS, and if a function selects certificates.
// The client's trusted authorities are not known here.
func (s Security) certificateError(host string, now time.Time) (err error) {
	if s.TLS == nil || s.TLS.GetCertificate != nil {
		return nil
	}
	for _, c := range s.TLS.Certificates {
		leaf := c.Leaf
		if leaf == nil {
			if leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
				continue
			}
		}
		if err = leaf.VerifyHostname(host); err == nil && now.After(leaf.NotAfter) {
			err = fmt.Errorf("it expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		if err == nil {
			return nil
		}
	}
	return err
}
