// Package wired makes the clients of tests reach a cluster in the process over a network in memory,
// with packages kafka and remote between them.
//
// A package of tests opens each client's backend with Client if On reports true. Tests whose
// subject is the process call InProcess.
package wired

import (
	"cmp"
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/remote"
)

// Env is the environment variable that makes all tests use the network, if it is set.
const Env = "STRATA_NETWORK"

// overNetwork is in the names of the tests that use the network in every run.
const overNetwork = "OverANetwork"

// On reports whether the clients of a test reach their cluster over a network.
func On(t testing.TB) bool {
	top, _, _ := strings.Cut(t.Name(), "/")
	return os.Getenv(Env) != "" || strings.Contains(top, overNetwork)
}

// InProcess skips a test whose clients reach their cluster over a network. reason states the
// difference of a network.
func InProcess(t testing.TB, reason string) {
	t.Helper()
	if On(t) {
		t.Skip("in process: " + reason)
	}
}

// Settle waits until clients have done all that they can. Over a network they notice changes of the
// metadata only when these are refreshed, and a fetch in progress delays the next one.
func Settle(t testing.TB) {
	t.Helper()
	synctest.Wait()
	if On(t) {
		time.Sleep(remote.DefaultMetadataMaxAge + time.Second)
		synctest.Wait()
	}
}

// A Network has the server of a cluster.
type Network struct {
	net    memnet.Network
	addrs  map[int32]string // by broker
	client *remote.Cluster  // for Client; nil: none yet
	server *kafka.Server
	ended  chan error // of server
}

// Serve serves c until the test ends.
func Serve(t testing.TB, c *strata.Cluster) *Network {
	t.Helper()
	n := &Network{addrs: map[int32]string{}}
	n.serve(t, c)
	t.Cleanup(func() { n.hangUp(t) })
	return n
}

// Open returns a client of its own, as another process has. The caller must close it.
func (n *Network) Open(ctx context.Context) (*remote.Cluster, error) {
	return remote.Open(ctx, remote.Config{Dial: n.net.Dial, Brokers: slices.Sorted(maps.Values(n.addrs))})
}

// Replace serves another cluster, for example the same one after a restart, at the same addresses.
// The connections of clients end.
func (n *Network) Replace(t testing.TB, c *strata.Cluster) {
	t.Helper()
	n.hangUp(t)
	n.serve(t, c)
}

func (n *Network) serve(t testing.TB, c *strata.Cluster) {
	t.Helper()
	lns := map[int32]net.Listener{}
	for _, id := range c.Brokers() {
		ln, err := n.net.Listen(cmp.Or(n.addrs[id], "127.0.0.1:0"))
		require.NoError(t, err)
		lns[id], n.addrs[id] = ln, ln.Addr().String()
	}
	s, ended := kafka.NewServer(c, kafka.Config{}), make(chan error, 1)
	n.server, n.ended = s, ended
	go func() { ended <- s.ServeAll(lns) }()
}

func (n *Network) hangUp(t testing.TB) {
	t.Helper()
	require.NoError(t, n.server.Close())
	require.ErrorIs(t, <-n.ended, kafka.ErrServerClosed)
}

// networks are the networks for Client, by *strata.Cluster.
var networks sync.Map

// Client returns a client of c. Callers share it until the test that has called first ends.
func Client(t testing.TB, c *strata.Cluster) *remote.Cluster {
	t.Helper()
	if known, ok := networks.Load(c); ok {
		return known.(*Network).client
	}
	n := Serve(t, c)
	var err error
	n.client, err = n.Open(t.Context())
	require.NoError(t, err)
	networks.Store(c, n)
	t.Cleanup(func() {
		networks.Range(func(c, of any) bool {
			if of == n {
				networks.Delete(c)
			}
			return true
		})
		require.NoError(t, n.client.Close())
	})
	return n.client
}

// Replace gives the addresses of a cluster with a Client to its successor: see Network.Replace.
func Replace(t testing.TB, former, successor *strata.Cluster) {
	t.Helper()
	if known, ok := networks.Load(former); ok {
		n := known.(*Network)
		n.Replace(t, successor)
		networks.Store(successor, n)
	}
}
