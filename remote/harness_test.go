package remote_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A world is a cluster in memory, its server on a network in memory, and a client of that.
type world struct {
	local  *strata.Cluster
	net    *memnet.Network
	client *remote.Cluster
	cfg    remote.Config
	addrs  map[int32]string
}

// bubble runs fn with virtual time and a world with topic "t".
func bubble(t *testing.T, brokers, partitions int, fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, brokers, partitions, kafka.Config{})
		w.client = w.open(t)
		fn(t, w)
	})
}

func newWorld(t *testing.T, brokers, partitions int, cfg kafka.Config) *world {
	t.Helper()
	w := &world{net: &memnet.Network{}, addrs: map[int32]string{}}
	var err error
	w.local, err = strata.Open(strata.Config{Brokers: brokers})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.local.Close()) })
	require.NoError(t, w.local.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions, ReplicationFactor: brokers}))
	s := kafka.NewServer(w.local, cfg)
	lns := map[int32]net.Listener{}
	for id := int32(1); id <= int32(brokers); id++ {
		ln, err := w.net.Listen("127.0.0.1:0")
		require.NoError(t, err)
		lns[id], w.addrs[id] = ln, ln.Addr().String()
		w.cfg.Brokers = append(w.cfg.Brokers, ln.Addr().String())
	}
	w.cfg.Dial = w.net.Dial
	ended := make(chan error, 1)
	go func() { ended <- s.ServeAll(lns) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, kafka.ErrServerClosed)
	})
	return w
}

func (w *world) open(t *testing.T) *remote.Cluster {
	t.Helper()
	c, err := remote.Open(t.Context(), w.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// fill sends n records to topic "t", with their numbers as keys and values.
func fill(t *testing.T, b producer.Backend, n int) {
	t.Helper()
	p, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	var rs []record.Record
	for i := range n {
		rs = append(rs, record.String("t", fmt.Sprint(i), fmt.Sprint(i)))
	}
	_, err = p.Send(t.Context(), rs...)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// read reads n records of a consumer and returns how often each value came.
func read(t *testing.T, c *consumer.Consumer, n int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := map[string]int{}
	for r, err := range c.Records(ctx) {
		require.NoError(t, err)
		if got[string(r.Value)]++; len(got) == n {
			c.Wakeup() // and not break, which would leave this record unprocessed
		}
	}
	require.Len(t, got, n, "records came within a minute")
	return got
}

// once requires that the values are the numbers below n, each once.
func once(t *testing.T, got map[string]int, n int) {
	t.Helper()
	require.Len(t, got, n)
	for i := range n {
		require.Equal(t, 1, got[fmt.Sprint(i)], "record %d", i)
	}
}
