package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/replication"
)

func TestServeRefusesPublicAddressesUnlessTold(t *testing.T) {
	s, _ := serve(t, Config{})
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve(s.cluster.Controller(), ln), ErrPublicAddress)
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestServeRefusesBrokersThatTheClusterDoesNotHave(t *testing.T) {
	s, _ := serve(t, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve(99, ln), ErrUnknownBroker)
}

func TestServeRefusesVersionCapsThatSayNothing(t *testing.T) {
	_, _, served := ServedVersions(1000)
	require.False(t, served)
	lowest, highest, served := ServedVersions(Fetch)
	require.Equal(t, []any{int16(4), int16(18), true}, []any{lowest, highest, served})
	cluster := withUsers(t)
	for says, caps := range map[string]map[int16]int16{
		"API 1000 (Unknown) is not served":     {1000: 1},
		"API 4 (LeaderAndISR) is not served":   {4: NotServed},
		"kafka: invalid version caps: version": {int16(Fetch): -5},
		"version -2 of Produce":                {int16(Produce): NotServed - 1, int16(Metadata): 5},
	} {
		refused := NewServer(cluster, Config{VersionCaps: caps})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, err = refused.Announce(map[int32]net.Listener{cluster.Controller(): ln})
		require.ErrorIs(t, err, ErrInvalidVersionCaps)
		require.ErrorContains(t, err, says)
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, refused.Close())
	}
}

// waitingFetch sends a fetch that waits for an hour, and returns when the server holds memory for
// it.
func waitingFetch(t *testing.T, s *Server, c *client) {
	t.Helper()
	req := want(12, "orders", 0)
	req.MinBytes, req.MaxWaitMillis = 1, 3_600_000
	c.send(req)
	require.Eventually(t, func() bool { return !whole(s) }, 10*time.Second, time.Millisecond)
}

func TestShutdownEndsLongPollsAndReturnsWhenNothingIsLeft(t *testing.T) {
	s, c := fetchServer(t)
	waitingFetch(t, s, c)
	require.NoError(t, s.Shutdown(context.Background()))
	require.Empty(t, s.conns)
	require.True(t, whole(s), "all memory is given back")
}

func TestAClosedConnectionEndsItsLongPoll(t *testing.T) {
	s, c := fetchServer(t)
	waitingFetch(t, s, c)
	c.nc.Close()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	}, 10*time.Second, time.Millisecond)
}

// W9, W10
func TestHostileArgumentsOfFetchGetAnErrorAtOnce(t *testing.T) {
	_, c := fetchServer(t)
	for _, name := range []string{"../x", "/etc/passwd", "a\x00b", "a\nb", string(make([]byte, 250)), "", "."} {
		req := want(12, name, 0)
		req.MaxBytes, req.MinBytes, req.MaxWaitMillis = -1, -1, -1
		req.Topics[0].Partitions[0].PartitionMaxBytes = -1 << 31
		require.Equal(t, UnknownTopicOrPartition, Code(c.fetch(req).Topics[0].Partitions[0].ErrorCode), "%q", name)
		produced := c.ask(produceOne(9, name, batch("k", "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		require.Equal(t, UnknownTopicOrPartition, Code(produced.ErrorCode), "%q", name)
	}
	for _, p := range []int32{-1, -1 << 31, 1<<31 - 1} {
		req := want(12, "orders", 0)
		req.Topics[0].Partitions[0].Partition = p
		require.Equal(t, UnknownTopicOrPartition, Code(c.fetch(req).Topics[0].Partitions[0].ErrorCode), p)
	}
}

func TestServeWarnsOfPasswordsThatCrossTheNetworkInTheClear(t *testing.T) {
	a, err := throwaway.New()
	require.NoError(t, err)
	plain := &SASL{Plain: StaticPasswords(map[string]string{"alice": "secret"})}
	for _, tc := range []struct {
		address  string
		security Security
		warns    bool
	}{
		{"0.0.0.0:0", Security{SASL: plain}, true},
		{"0.0.0.0:0", Security{SASL: &SASL{OAuthBearer: UnsecuredJWTForTests{}}}, true},
		{"127.0.0.1:0", Security{SASL: plain}, false},
		{"0.0.0.0:0", Security{SASL: plain, TLS: serverTLS(t, a, tls.NoClientCert)}, false},
		{"0.0.0.0:0", Security{SASL: &SASL{Scram: []replication.ScramMechanism{replication.ScramSHA256}}}, false},
	} {
		var logged bytes.Buffer
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		s := NewServer(c, Config{Security: tc.security, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		ln, err := net.Listen("tcp", tc.address)
		require.NoError(t, err)
		serve, err := s.Announce(map[int32]net.Listener{1: ln})
		require.NoError(t, err)
		require.Equal(t, tc.warns, strings.Contains(logged.String(), "level=WARN msg=\"clients send passwords or tokens without TLS"), "%+v: %s", tc, logged.String())
		ended := make(chan error, 1)
		go func() { ended <- serve() }()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
		require.NoError(t, c.Close())
	}
}
