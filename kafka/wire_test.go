package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka/internal/transport"
)

// serve runs a server over a cluster in memory, on a loopback port.
func serve(t testing.TB, cfg Config) (*Server, string) {
	t.Helper()
	return serveCluster(t, openCluster(t), cfg)
}

func openCluster(t testing.TB) *strata.Cluster {
	t.Helper()
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	return cluster
}

func serveCluster(t testing.TB, cluster *strata.Cluster, cfg Config) (*Server, string) {
	t.Helper()
	s := NewServer(cluster, cfg)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(cluster.Controller(), ln) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
	})
	return s, ln.Addr().String()
}

// whole reports whether all memory of the server is free.
func whole(s *Server) bool {
	for _, b := range []*transport.Budget{s.memory.Budget, s.memory.Guests, s.decoding} {
		n := b.TryTake(b.Size(), b.Size(), nil)
		b.Give(n, nil)
		if n < b.Size() {
			return false
		}
	}
	return true
}

// A client sends and receives frames of the protocol itself.
type client struct {
	t    testing.TB
	nc   net.Conn
	next int32
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	return &client{t: t, nc: nc}
}

// send writes a request, whose version the caller has set.
func (c *client) send(req kmsg.Request) (correlation int32) {
	c.t.Helper()
	c.next++
	_, err := c.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.next))
	require.NoError(c.t, err)
	return c.next
}

// receive reads the answer to req.
func (c *client) receive(req kmsg.Request, correlation int32) kmsg.Response {
	c.t.Helper()
	frame := c.frame()
	require.Equal(c.t, correlation, int32(binary.BigEndian.Uint32(frame)))
	body := frame[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && Key(resp.Key()) != ApiVersions {
		require.Zero(c.t, body[0], "tags in the header")
		body = body[1:]
	}
	require.NoError(c.t, resp.ReadFrom(body))
	return resp
}

func (c *client) frame() []byte {
	c.t.Helper()
	var size [4]byte
	_, err := io.ReadFull(c.nc, size[:])
	require.NoError(c.t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(c.nc, frame)
	require.NoError(c.t, err)
	return frame
}

func (c *client) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	return c.receive(req, c.send(req))
}

// closed waits until the server has closed the connection. The cause must be the sent bytes, not a
// timeout.
func (c *client) closed() {
	c.t.Helper()
	c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := c.nc.Read(make([]byte, 1))
	require.Zero(c.t, n)
	require.Error(c.t, err)
	require.False(c.t, isTimeout(err), "the connection is still open")
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// ask sends one request of the given version on a new connection.
func ask[R kmsg.Response](t testing.TB, addr string, version int16, req kmsg.Request) R {
	t.Helper()
	req.SetVersion(version)
	c := dial(t, addr)
	defer c.nc.Close()
	return c.ask(req).(R)
}
