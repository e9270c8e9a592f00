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

// maxHandshake bounds the bytes that a client sends until TLS is agreed on: a chain of certificates
// is some kilobytes.
const maxHandshake = 128 << 10

// usualHandshake is how many bytes of a handshake are the connection's own: they are bounded by the
// number of connections. Further ones are taken from the guests' budget.
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

// newSecureConn returns the server's side of a connection. It sends and receives nothing: that is
// for handshake.
func newSecureConn(c *conn, nc net.Conn, cfg *tls.Config) *secureConn {
	raw := &countedConn{Conn: nc, conn: c}
	raw.counts.Store(true)
	return &secureConn{tls.Server(raw, cfg), raw}
}

// Close cuts the connection at once. It does not say goodbye as tls.Conn.Close does, which waits
// for a client that does not read: see conn.farewell.
func (c *secureConn) Close() error { return c.raw.Close() }

// countedConn is the connection below TLS. What comes during the handshake is bounded, and counts
// as bytes of requests: crypto/tls keeps it until a message is whole.
type countedConn struct {
	net.Conn
	conn   *conn
	counts atomic.Bool // the handshake is under way
	came   int         // bytes of the handshake so far; for the goroutine of run
}

// NetConn returns the connection that c counts the bytes of.
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

// handshake agrees on TLS until the deadline, and says who the client is if its certificate does.
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
		return nil // who the client is SASL says, as in Kafka
	}
	state := sc.ConnectionState()
	if len(state.VerifiedChains) == 0 { // a certificate that nobody has verified proves nothing
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

// farewell tells the client of a connection with TLS that nothing was cut off. It does not where an
// answer is being written: the client may not be reading.
func (c *conn) farewell() {
	if c.secure == nil || c.transport.Context().Err() != nil || c.transport.Writing() {
		return
	}
	c.secure.CloseWrite() // waits for at most 5 s, or until somebody closes the connection
}

// maxRecord is the payload of one record of TLS.
const maxRecord = 16 << 10

// WritePieces writes an answer, or several, in as few records of TLS as their bytes take.
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

// certificateError returns why a client that connects to host would refuse the listener's
// certificate now; nil without TLS, and where certificates are chosen by a function. The
// authorities that the client trusts are not known here.
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
