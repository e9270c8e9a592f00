package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/topic"
)

func authority(t testing.TB) *throwaway.Authority {
	t.Helper()
	a, err := throwaway.New()
	require.NoError(t, err)
	return a
}

func certificate(t testing.TB, a *throwaway.Authority, r throwaway.Request) tls.Certificate {
	t.Helper()
	c, err := a.Certificate(r)
	require.NoError(t, err)
	return c
}

// serverTLS is a server's configuration of TLS, for 127.0.0.1 and clients that a has signed.
func serverTLS(t testing.TB, a *throwaway.Authority, auth tls.ClientAuthType) *tls.Config {
	t.Helper()
	cert := certificate(t, a, throwaway.Request{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"127.0.0.1", "broker.invalid"}})
	return &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: auth, ClientCAs: a.Pool()}
}

// dialTLS connects with TLS, and shows the certificates, if any.
func dialTLS(t testing.TB, addr string, a *throwaway.Authority, certs ...tls.Certificate) *client {
	t.Helper()
	c := dial(t, addr)
	c.nc = tls.Client(c.nc, &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1", Certificates: certs})
	t.Cleanup(func() { c.nc.Close() })
	return c
}

// principals returns the principals of a server's connections.
func principals(s *Server) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		all = append(all, c.principal().String())
	}
	return all
}

func askVersions(c *client) *kmsg.ApiVersionsResponse {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 2
	return c.ask(req).(*kmsg.ApiVersionsResponse)
}

func TestCertificatesSayWhoTheClientIs(t *testing.T) {
	a := authority(t)
	rules, err := ParsePrincipalRules(`RULE:^CN=(.*?),OU=short$/$1/L,DEFAULT`)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		auth    tls.ClientAuthType
		subject *pkix.Name // nil: no certificate
		want    string
	}{
		"required":                   {tls.RequireAndVerifyClientCert, &pkix.Name{CommonName: "alice", OrganizationalUnit: []string{"dev"}, Country: []string{"DE"}}, "User:CN=alice,OU=dev,C=DE"},
		"with rules":                 {tls.RequireAndVerifyClientCert, &pkix.Name{CommonName: "Bob", OrganizationalUnit: []string{"short"}}, "User:bob"},
		"requested, and there":       {tls.VerifyClientCertIfGiven, &pkix.Name{CommonName: "alice"}, "User:CN=alice"},
		"requested, and not there":   {tls.VerifyClientCertIfGiven, nil, "User:ANONYMOUS"},
		"nobody asks for it":         {tls.NoClientCert, &pkix.Name{CommonName: "alice"}, "User:ANONYMOUS"},
		"none and nobody asks":       {tls.NoClientCert, nil, "User:ANONYMOUS"},
		"with what has to be quoted": {tls.RequireAndVerifyClientCert, &pkix.Name{CommonName: "a,CN=admin"}, `User:CN=a\,CN\=admin`},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := serve(t, Config{Security: Security{TLS: serverTLS(t, a, tc.auth), PrincipalRules: rules}})
			var certs []tls.Certificate
			if tc.subject != nil {
				certs = append(certs, certificate(t, a, throwaway.Request{Subject: *tc.subject}))
			}
			c := dialTLS(t, addr, a, certs...)
			require.Zero(t, askVersions(c).ErrorCode)
			require.Equal(t, []string{tc.want}, principals(s))
		})
	}
}

func TestClientsWithoutAValidCertificateAreRefused(t *testing.T) {
	a, foreign := authority(t), authority(t)
	only, err := ParsePrincipalRules(`RULE:^CN=only$/only/`)
	require.NoError(t, err)
	alice := pkix.Name{CommonName: "alice"}
	for name, certs := range map[string][]tls.Certificate{
		"none":          nil,
		"foreign":       {certificate(t, foreign, throwaway.Request{Subject: alice})},
		"expired":       {certificate(t, a, throwaway.Request{Subject: alice, NotAfter: time.Now().Add(-time.Minute)})},
		"not yet valid": {certificate(t, a, throwaway.Request{Subject: alice, NotBefore: time.Now().Add(time.Hour)})},
		"no rule":       {certificate(t, a, throwaway.Request{Subject: alice})},
	} {
		t.Run(name, func(t *testing.T) {
			security := Security{TLS: serverTLS(t, a, tls.RequireAndVerifyClientCert)}
			if name == "no rule" {
				security.PrincipalRules = only
			}
			s, addr := serve(t, Config{Security: security})
			c := dialTLS(t, addr, a, certs...)
			req := kmsg.NewPtrApiVersionsRequest()
			c.nc.SetDeadline(time.Now().Add(20 * time.Second))
			c.nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1))
			n, err := c.nc.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Error(t, err)
			require.False(t, isTimeout(err))
			require.NoError(t, s.Shutdown(t.Context()))
			require.True(t, whole(s), "all memory is given back")
		})
	}
}

func TestSecurityThatContradictsItselfIsRefused(t *testing.T) {
	a := authority(t)
	good := serverTLS(t, a, tls.RequireAndVerifyClientCert)
	for name, edit := range map[string]func(*tls.Config){
		"no certificate":                   func(c *tls.Config) { c.Certificates = nil },
		"certificates that nobody checks":  func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
		"certificates that nobody checks,": func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert },
		"no authority":                     func(c *tls.Config) { c.ClientCAs = nil },
	} {
		bad := good.Clone()
		edit(bad)
		s, _ := serve(t, Config{})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.ErrorIs(t, s.Serve(1, &Listener{Listener: ln, Security: Security{TLS: bad}}), ErrInvalidSecurity, name)
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed, name)
	}
}

// publicListener has an address that other machines reach. It accepts no connection.
func publicListener() net.Listener {
	return public{failing{port: 1, accept: func() error { return io.ErrUnexpectedEOF }}}
}

type public struct{ failing }

func (public) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

func TestPublicAddressesAreServedIfEveryClientIsAuthenticated(t *testing.T) {
	a := authority(t)
	for auth, want := range map[tls.ClientAuthType]error{
		tls.NoClientCert: ErrPublicAddress, tls.VerifyClientCertIfGiven: ErrPublicAddress, tls.RequireAndVerifyClientCert: io.ErrUnexpectedEOF,
	} {
		s, _ := serve(t, Config{})
		require.ErrorIs(t, s.Serve(1, &Listener{Listener: publicListener(), Security: Security{TLS: serverTLS(t, a, auth)}}), want, auth)
	}
}

// A server has listeners of several protocols. A client receives the addresses of the listeners
// with the name of its own.
func TestClientsAreToldOfListenersOfTheNameTheyCameInBy(t *testing.T) {
	a := authority(t)
	cluster, err := strata.Open(strata.Config{Brokers: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	s := NewServer(cluster, Config{})
	var ended []func() error
	announce := func(broker int32, ln net.Listener) {
		serve, err := s.Announce(map[int32]net.Listener{broker: ln})
		require.NoError(t, err)
		ended = append(ended, serve)
	}
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return ln
	}
	plain1, plain2, secure1, named := listen(), listen(), listen(), listen()
	announce(1, plain1)
	announce(2, plain2)
	security := Security{TLS: serverTLS(t, a, tls.NoClientCert)}
	announce(1, &Listener{Listener: secure1, Security: security})
	announce(2, &Listener{Listener: named, Name: "OUTSIDE", Security: security})
	errs := make(chan error, len(ended))
	for _, serve := range ended {
		go func() { errs <- serve() }()
	}
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		for range ended {
			require.ErrorIs(t, <-errs, ErrServerClosed)
		}
	})
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	told := func(c *client) map[int32]string {
		all := map[int32]string{}
		for _, b := range c.ask(req).(*kmsg.MetadataResponse).Brokers {
			all[b.NodeID] = hostPort(b.Host, b.Port)
		}
		return all
	}
	require.Equal(t, map[int32]string{1: plain1.Addr().String(), 2: plain2.Addr().String()}, told(dial(t, plain2.Addr().String())))
	require.Equal(t, map[int32]string{1: secure1.Addr().String()}, told(dialTLS(t, secure1.Addr().String(), a)))
	require.Equal(t, map[int32]string{2: named.Addr().String()}, told(dialTLS(t, named.Addr().String(), a)))
	require.Equal(t, "OUTSIDE://"+named.Addr().String()+",PLAINTEXT://"+plain2.Addr().String(), s.endpoints(2))
}

// secureNetwork serves a broker with TLS on a network in memory.
func secureNetwork(t *testing.T, a *throwaway.Authority, limits Limits) (*Server, *memnet.Network) {
	t.Helper()
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	network := &memnet.Network{}
	ln, err := network.Listen("broker.invalid:9092")
	require.NoError(t, err)
	s := NewServer(cluster, Config{Limits: limits, Security: Security{TLS: serverTLS(t, a, tls.NoClientCert)}})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(1, ln) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
	})
	return s, network
}

func TestHandshakesHoldUpNobodyAndAreBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t)
		s, network := secureNetwork(t, a, Limits{FirstRequest: 7 * time.Second})
		start := time.Now()
		var silent []net.Conn
		for range 20 {
			nc, err := network.Dial(t.Context(), "tcp", "broker.invalid:9092")
			require.NoError(t, err)
			_, err = nc.Write([]byte("\x16\x03\x01\x02\x00\x01\x00")) // and nothing more
			require.NoError(t, err)
			silent = append(silent, nc)
		}
		nc, err := network.Dial(t.Context(), "tcp", "broker.invalid:9092")
		require.NoError(t, err)
		c := &client{t: t, nc: tls.Client(nc, &tls.Config{RootCAs: a.Pool(), ServerName: "broker.invalid"})}
		require.Zero(t, askVersions(c).ErrorCode)
		require.Zero(t, time.Since(start), "it waits for nobody else's handshake")
		for _, nc := range silent {
			_, err := io.ReadAll(nc)
			require.NoError(t, err)
			require.Equal(t, 7*time.Second, time.Since(start))
			nc.Close()
		}
		c.nc.Close()
		synctest.Wait()
		require.Empty(t, s.conns)
	})
}

func TestHandshakesAreBoundedInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t)
		s, network := secureNetwork(t, a, Limits{})
		nc, err := network.Dial(t.Context(), "tcp", "broker.invalid:9092")
		require.NoError(t, err)
		defer nc.Close()
		// A client hello of 63 KiB that comes in records of 16 KiB, all but its last byte: it is
		// kept, and counted.
		hello := make([]byte, 63<<10)
		copy(hello, []byte{1, 0, 0xfb, 0xfc})
		for len(hello) > 1 {
			n := min(16<<10, len(hello)-1)
			_, err := nc.Write(append([]byte{0x16, 3, 1, byte(n >> 8), byte(n)}, hello[:n]...))
			require.NoError(t, err)
			hello = hello[n:]
		}
		synctest.Wait()
		free := s.memory.Guests.Size() - (62<<10 - usualHandshake)
		require.Zero(t, s.memory.Guests.TryTake(free, free, nil), "the handshake's bytes are not counted")
		nc.Close()
		synctest.Wait()
		require.True(t, whole(s), "all memory is given back")

		// A client that makes the server read more than maxHandshake does no handshake.
		far, near := memnet.Pipe(memnet.Addr("a:1"), memnet.Addr("b:1"))
		raw := newConn(s, &listener{broker: &broker{id: 1}, security: s.cfg.Security}, near).secure.raw
		go far.Write(make([]byte, maxHandshake+1))
		_, err = io.ReadFull(raw, make([]byte, maxHandshake+1))
		require.ErrorIs(t, err, errHandshakeSize)
		far.Close()
		near.Close()
		raw.conn.transport.GiveEarly()
	})
}

func TestOtherProtocolsOnAListenerWithTLSAreClosed(t *testing.T) {
	a := authority(t)
	s, addr := serve(t, Config{Security: Security{TLS: serverTLS(t, a, tls.NoClientCert)}})
	for _, hello := range []string{
		"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.9\r\n", "\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff", "\x16\x03\x01\xff\xff", "\x80\x2e\x01\x03\x01",
		"\x16\x03\x01\x00\x04\x01\xff\xff\xff", string(bytes.Repeat([]byte{0x17, 3, 3, 0, 0}, 100)),
	} {
		c := dial(t, addr)
		_, err := c.nc.Write([]byte(hello))
		require.NoError(t, err)
		c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err = io.Copy(io.Discard, c.nc) // a TLS alert, perhaps
		require.False(t, isTimeout(err), "%q", hello)
	}
	require.NoError(t, s.Shutdown(t.Context()))
	require.True(t, whole(s), "all memory is given back")
}

// Large answers consist of several pieces and TLS records.
func TestRecordsGoThroughTLSUnchanged(t *testing.T) {
	a := authority(t)
	s, addr := serve(t, Config{Security: Security{TLS: serverTLS(t, a, tls.NoClientCert)}})
	require.NoError(t, s.cluster.EnsureTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	c := dialTLS(t, addr, a)
	value := bytes.Repeat([]byte("0123456789abcdef"), 40<<10/16)
	var stored []byte
	for range 5 {
		b := batch("k", string(value))
		require.Zero(t, c.ask(produceOne(9, "orders", b)).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		stored = append(stored, b...)
	}
	got := c.ask(fetchFrom("orders", 0, 1<<20)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	require.Zero(t, got.ErrorCode)
	require.Len(t, got.RecordBatches, len(stored))
	require.Equal(t, 5, bytes.Count(got.RecordBatches, value))
}

// A client can distinguish a connection that the server closed from a cut one.
func TestShutdownSaysGoodbyeOverTLS(t *testing.T) {
	a := authority(t)
	s, addr := serve(t, Config{Security: Security{TLS: serverTLS(t, a, tls.NoClientCert)}})
	c := dial(t, addr)
	raw := &counting{Conn: c.nc}
	c.nc = tls.Client(raw, &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"})
	t.Cleanup(func() { c.nc.Close() })
	askVersions(c)
	answered := raw.received
	require.NoError(t, s.Shutdown(context.Background()))
	_, err := c.nc.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.Greater(t, raw.received, answered, "crypto/tls takes an end without a goodbye for one, too")
}

// counting counts the bytes that a connection has received.
type counting struct {
	net.Conn
	received int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received += n
	return n, err
}

func TestPiecesAreWrittenInOrderWhateverTheirSizes(t *testing.T) {
	a := authority(t)
	near, far := net.Pipe()
	s := NewServer(openCluster(t), Config{})
	defer s.Close()
	sc := newConn(s, &listener{broker: &broker{id: 1}, security: Security{TLS: serverTLS(t, a, tls.NoClientCert)}}, near).secure
	peer := tls.Client(far, &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"})
	var want []byte
	var pieces net.Buffers
	for i, n := range []int{0, 1, maxRecord - 1, 1, maxRecord, 5, 3 * maxRecord, 2*maxRecord + 7, 0, 100, maxRecord} {
		p := bytes.Repeat([]byte{byte(i + 1)}, n)
		pieces, want = append(pieces, p), append(want, p...)
	}
	errs := make(chan error, 1)
	go func() { errs <- errors.Join(sc.Handshake(), sc.WritePieces(pieces)) }()
	got := make([]byte, len(want))
	_, err := io.ReadFull(peer, got)
	require.NoError(t, err)
	require.NoError(t, <-errs)
	require.True(t, bytes.Equal(want, got))
	near.Close()
}
