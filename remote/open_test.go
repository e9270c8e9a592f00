package remote_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func TestOpenReturnsTheCauseWithinItsBound(t *testing.T) {
	a, err := throwaway.New()
	require.NoError(t, err)
	cert, err := a.Certificate(throwaway.Request{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"127.0.0.1"}})
	require.NoError(t, err)
	secure := kafka.Config{Security: kafka.Security{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}}
	users := kafka.Config{Security: kafka.Security{SASL: &kafka.SASL{Scram: []replication.ScramMechanism{replication.ScramSHA256}}}}
	for name, c := range map[string]struct {
		server kafka.Config
		change func(*remote.Config)
		want   error
		text   string // of the error
	}{
		"no broker listens":                   {change: func(c *remote.Config) { c.Brokers = []string{"127.0.0.1:1"} }, want: remote.ErrUnreachable},
		"the server is a web server":          {change: answers("HTTP/1.1 400 Bad Request\r\n\r\n"), want: remote.ErrNotKafka},
		"the server never responds":           {change: answers(""), want: remote.ErrUnreachable},
		"only the broker uses TLS":            {server: secure, want: remote.ErrUnreachable, text: "is TLS missing"},
		"the certificate's authority differs": {server: secure, change: func(c *remote.Config) { c.TLS = &tls.Config{RootCAs: x509.NewCertPool()} }, want: remote.ErrTLS},
		"the certificate has another name": {server: secure, change: func(c *remote.Config) {
			c.TLS = &tls.Config{RootCAs: a.Pool(), ServerName: "other.example"}
		}, want: remote.ErrTLS},
		"the user does not exist":          {server: users, change: login(scram.Auth{User: "nobody", Pass: "x"}.AsSha256Mechanism()), want: remote.ErrNotAuthenticated},
		"the broker has no such mechanism": {server: users, change: login(plain.Auth{User: "nobody", Pass: "x"}.AsMechanism()), want: remote.ErrNotAuthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 1, c.server)
				w.cfg.RequestTimeout = time.Second
				if c.change != nil {
					c.change(&w.cfg)
				}
				began := time.Now()
				_, err := remote.Open(t.Context(), w.cfg)
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, c.text)
				require.LessOrEqual(t, time.Since(began), 5*w.cfg.RequestTimeout)
			})
		})
	}
}

// answers makes the client talk to a server that responds with text to anything.
func answers(text string) func(*remote.Config) {
	return func(c *remote.Config) {
		c.Dial = func(context.Context, string, string) (net.Conn, error) {
			client, server := memnet.Pipe(memnet.Addr("client:1"), memnet.Addr("server:1"))
			go func() {
				defer server.Close()
				p := make([]byte, 1)
				_, _ = server.Read(p)
				_, _ = io.WriteString(server, text)
				_, _ = io.Copy(io.Discard, server)
			}()
			return client, nil
		}
	}
}

func login(m sasl.Mechanism) func(*remote.Config) {
	return func(c *remote.Config) { c.SASL = []sasl.Mechanism{m} }
}

func TestConfigWithoutAnAddressIsRefused(t *testing.T) {
	for _, cfg := range []remote.Config{
		{}, {Brokers: []string{""}}, {Brokers: []string{"b:1"}, RequestTimeout: time.Millisecond}, {Brokers: []string{"b:1"}, MetadataMaxAge: -1},
	} {
		_, err := remote.Open(t.Context(), cfg)
		require.ErrorAs(t, err, new(*topic.ConfigError))
	}
}

func TestCallsOnAClosedClusterReturnErrClosed(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, w *world) {
		c := w.open(t)
		require.NoError(t, c.Close())
		require.NoError(t, c.Close(), "it is idempotent")
		_, err := c.Metadata(t.Context(), "t")
		require.ErrorIs(t, err, replication.ErrClosed)
		_, err = c.Topic(t.Context(), "t")
		require.ErrorIs(t, err, replication.ErrClosed)
		_, err = c.Group(t.Context(), "g")
		require.ErrorIs(t, err, replication.ErrClosed)
		_, err = consumer.New(c, consumer.Config{Topics: []string{"t"}})
		require.ErrorIs(t, err, replication.ErrClosed)
		_, err = c.WaitMetadata(t.Context(), 0)
		require.ErrorIs(t, err, replication.ErrClosed)
	})
}

func TestRecordsThatWaitWhileTheClusterClosesFail(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, w *world) {
		c := w.open(t)
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		_, err = p.Send(t.Context(), record.String("t", "", "a"))
		require.Error(t, err)
		require.True(t, errors.Is(err, replication.ErrClosed), err)
		_ = p.Close()
	})
}

// A broker that hangs accepts connections and responds to nothing.
func TestBrokerThatHangsDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 2, kafka.Config{})
		hung := ""
		w.cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != hung {
				return w.net.Dial(ctx, network, addr)
			}
			client, server := memnet.Pipe(memnet.Addr("client:1"), memnet.Addr("server:1"))
			go func() {
				_, _ = io.Copy(io.Discard, server)
				_ = server.Close()
			}()
			return client, nil
		}
		hung = w.addrs[1]
		for range 8 { // the first broker is chosen at random
			began := time.Now()
			c, err := remote.Open(t.Context(), w.cfg)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), 3*time.Second)
			began = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			err = readAll(ctx, c, consumer.ReadConfig{Topic: "t"})
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.LessOrEqual(t, time.Since(began), time.Second, "the call ends with its context")
			began = time.Now()
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
			if _, err := c.FetchOffsets(ctx, "g", nil); err != nil { // the other broker may be the coordinator
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			cancel()
			require.LessOrEqual(t, time.Since(began), time.Second, "the call ends with its context")
			require.NoError(t, c.Close())
		}
	})
}
