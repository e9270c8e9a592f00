package mirror_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const partitions = 3

// A world is a cluster in this process with topic "t", and brokers behind a network in memory.
type world struct {
	t      *testing.T
	local  *strata.Cluster
	server *kafkatest.Server
}

// bubble runs fn with virtual time.
func bubble(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: kafkatest.New(t, kafkatest.Config{Pipe: true})}
		var err error
		w.local, err = strata.Open(strata.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.local.Close()) })
		require.NoError(t, w.local.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
		fn(t, w)
	})
}

// dial opens a client of the brokers.
func (w *world) dial() *remote.Cluster {
	w.t.Helper()
	c, err := remote.Open(w.t.Context(), remote.Config{Brokers: w.server.Addrs(), Dial: w.server.Dial})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, c.Close()) })
	return c
}

func forward(t *testing.T, from mirror.Source, to mirror.Target, cfg mirror.ForwardConfig) *mirror.Forward {
	t.Helper()
	if cfg.ID == "" {
		cfg.ID = "m"
	}
	if cfg.Topics == nil {
		cfg.Topics = []string{"t"}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	f, err := mirror.NewForward(from, to, cfg)
	require.NoError(t, err)
	return f
}

// drain drains topic "t" with a new mirror "m".
func drain(t *testing.T, from mirror.Source, to mirror.Target) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	return forward(t, from, to, mirror.ForwardConfig{}).Drain(ctx)
}

// fill sends records with the numbers from first to first+n-1 to topic "t".
func fill(t *testing.T, b producer.Backend, first, n int) {
	t.Helper()
	p, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	_, err = p.Send(t.Context(), numbered(first, n)...)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

func numbered(first, n int) (rs []record.Record) {
	for i := first; i < first+n; i++ {
		r := record.String("t", fmt.Sprint("key ", i%7), fmt.Sprint(i)).To(int32(i % partitions))
		r.Headers = []record.Header{{Key: "n", Value: []byte(fmt.Sprint(i))}, {Key: "n", Value: nil}}
		r.Timestamp = time.UnixMilli(946_684_700_000 + int64(i))
		if i%5 == 0 {
			r.Key, r.Value = nil, []byte{}
		}
		if i%11 == 0 {
			r.Key, r.Value = []byte{}, nil
		}
		rs = append(rs, r)
	}
	return rs
}

// A row is a record without its offset.
type row struct {
	key, value, headers string
	time                int64
}

// rows returns the committed records of a topic by partition.
func rows(t *testing.T, b consumer.LogBackend, name string) map[int32][]row {
	t.Helper()
	got := map[int32][]row{}
	for r, err := range consumer.Read(t.Context(), b, consumer.ReadConfig{Topic: name}) {
		require.NoError(t, err)
		headers := ""
		for _, h := range r.Headers {
			headers += fmt.Sprintf("%s=%#v ", h.Key, h.Value)
		}
		got[r.Partition] = append(got[r.Partition], row{fmt.Sprintf("%#v", r.Key), fmt.Sprintf("%#v", r.Value), headers, r.Timestamp.UnixMilli()})
	}
	return got
}

// same requires that topic "t" has the same records in both clusters.
func same(t *testing.T, from, to consumer.LogBackend) {
	t.Helper()
	want, got := rows(t, from, "t"), rows(t, to, "t")
	for p := range int32(partitions) {
		require.Equal(t, len(want[p]), len(got[p]), "records of partition %d", p)
		require.Equal(t, want[p], got[p], "partition %d", p)
	}
}
