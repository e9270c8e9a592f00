package memnet

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/internal/synctest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestDialReachesTheListenerOfTheAddress(t *testing.T) {
	var n Network
	lns := map[string]net.Listener{}
	for _, addr := range []string{"one:9092", "two:9092"} {
		ln, err := n.Listen(addr)
		require.NoError(t, err)
		defer ln.Close()
		require.Equal(t, addr, ln.Addr().String())
		lns[addr] = ln
	}
	for addr, ln := range lns {
		var server net.Conn
		var wg sync.WaitGroup
		wg.Go(func() { server, _ = ln.Accept() })
		client, err := n.Dial(t.Context(), "tcp", addr)
		require.NoError(t, err)
		wg.Wait()
		require.NotNil(t, server)
		require.Equal(t, addr, client.RemoteAddr().String())
		require.Equal(t, client.LocalAddr(), server.RemoteAddr())
		_, err = client.Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, client.Close())
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
	}
}

func TestAddressIsUsedByOneListener(t *testing.T) {
	var n, other Network
	ln, err := n.Listen("a:1")
	require.NoError(t, err)
	_, err = n.Listen("a:1")
	require.ErrorIs(t, err, ErrAddressInUse)
	ln2, err := other.Listen("a:1") // networks are independent
	require.NoError(t, err)
	require.NoError(t, ln2.Close())
	require.NoError(t, ln.Close())
	require.ErrorIs(t, ln.Close(), net.ErrClosed)
	ln, err = n.Listen("a:1")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	_, err = n.Listen("no port")
	require.Error(t, err)
}

func TestPortZeroPicksAFreeOne(t *testing.T) {
	var n Network
	a, err := n.Listen("h:0")
	require.NoError(t, err)
	defer a.Close()
	b, err := n.Listen("h:0")
	require.NoError(t, err)
	defer b.Close()
	require.NotEqual(t, a.Addr(), b.Addr())
}

func TestDialFailsWhereNobodyListens(t *testing.T) {
	var n Network
	_, err := n.Dial(t.Context(), "tcp", "a:1")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestDialWaitsForAcceptAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		ln, err := n.Listen("a:1")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = n.Dial(ctx, "tcp", "a:1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())

		errs := make(chan error, 1)
		go func() { _, err := n.Dial(t.Context(), "tcp", "a:1"); errs <- err }()
		synctest.Wait()
		require.NoError(t, ln.Close())
		require.ErrorIs(t, <-errs, syscall.ECONNREFUSED)
	})
}

func TestCloseEndsAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		ln, err := n.Listen("a:1")
		require.NoError(t, err)
		errs := make(chan error)
		go func() { _, err := ln.Accept(); errs <- err }()
		synctest.Wait()
		require.NoError(t, ln.Close())
		require.ErrorIs(t, <-errs, net.ErrClosed)
	})
}
