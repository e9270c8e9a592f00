package producer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// openCluster opens a cluster with topic "a" of the given number of partitions.
func openCluster(t testing.TB, cfg strata.Config, partitions int) *strata.Cluster {
	t.Helper()
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.CreateTopic(t.Context(), "a", topic.Config{Partitions: partitions}); err != nil {
		require.ErrorIs(t, err, replication.ErrTopicExists)
	}
	return c
}

// read returns the values of one partition of topic "a".
func read(t testing.TB, c *strata.Cluster, index int32) (values []string) {
	t.Helper()
	tp := record.TopicPartition{Topic: "a", Partition: index}
	for next := int64(0); ; {
		res, err := c.Fetch(t.Context(), &partition.FetchRequest{Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}}})
		require.NoError(t, err)
		got := res.Partitions[0]
		require.NoError(t, got.Err)
		if len(got.Bytes) == 0 {
			return values
		}
		for p := got.Bytes; len(p) > 0; {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			for r, err := range b.All() {
				require.NoError(t, err)
				if r.Offset >= next {
					values = append(values, string(r.Value))
				}
			}
			p, next = p[n:], b.NextOffset()
		}
	}
}

func numbered(n int) (want []string) {
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	return want
}

// sendNumbers sends the numbers below n and requires that all are acknowledged at their offsets.
func sendNumbers(t testing.TB, p *producer.Producer, n int) {
	t.Helper()
	next := int64(0)
	for i := range n {
		p.SendAsync(t.Context(), record.Record{Topic: "a", Value: fmt.Append(nil, i)}, func(r record.Record, err error) {
			if err != nil || r.Offset != next {
				t.Errorf("record %d: offset %d, %v", i, r.Offset, err)
			}
			next++
		})
	}
	require.NoError(t, p.Flush(t.Context()))
	require.Equal(t, int64(n), next)
}

// A leader without producer state accepts any first sequence, so a second batch could overtake a
// lost first one. The producer sends the first batch of an epoch alone.
func TestLostConfirmationsLeaveOneCopyOfEachRecordInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // R5
		c := openCluster(t, strata.Config{FS: vfs.Mem()}, 1)
		p, err := producer.New((&lossy{c: c, rnd: rand.New(rand.NewPCG(1, 1)), chance: 20, delay: true}).on(t), producer.Config{BatchBytes: 2000, MaxRequestBytes: 2000, MaxBufferedBytes: 100_000})
		require.NoError(t, err)
		const n = 100_000
		sendNumbers(t, p, n)
		require.Equal(t, numbered(n), read(t, c, 0))
		if !wired.On(t) { // a broker's response does not show that a batch was a duplicate
			require.Greater(t, p.Stats().Duplicates, int64(10))
		}
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	})
}

func TestLostConfirmationsWithoutIdempotenceLeaveDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCluster(t, strata.Config{FS: vfs.Mem()}, 1)
		p, err := producer.New((&lossy{c: c, rnd: rand.New(rand.NewPCG(1, 1)), chance: 20, delay: true}).on(t), producer.Config{BatchBytes: 2000, MaxRequestBytes: 2000, NoIdempotence: true})
		require.NoError(t, err)
		for i := range 5000 {
			p.SendAsync(t.Context(), record.Record{Topic: "a", Value: fmt.Append(nil, i)}, nil)
		}
		require.NoError(t, p.Flush(t.Context()))
		got := read(t, c, 0)
		require.Greater(t, len(got), 5000, "acks=all alone does not help")
		seen := map[string]bool{}
		for _, v := range got {
			seen[v] = true
		}
		require.Len(t, seen, 5000, "at least once")
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	})
}

func TestIdempotenceHoldsOverRestartsOfTheBroker(t *testing.T) {
	dir := t.TempDir()
	cfg := strata.Config{Dir: dir}
	l := (&lossy{c: openCluster(t, cfg, 1), rnd: rand.New(rand.NewPCG(2, 2)), chance: 20}).on(t)
	p, err := producer.New(l, producer.Config{BatchBytes: 1000, MaxRequestBytes: 1000, RetryBackoff: time.Millisecond, RetryBackoffMax: 10 * time.Millisecond})
	require.NoError(t, err)
	const n = 20_000
	var bad []error
	for i := range n {
		p.SendAsync(t.Context(), record.Record{Topic: "a", Value: fmt.Append(nil, i)}, func(_ record.Record, err error) {
			if err != nil {
				bad = append(bad, err)
			}
		})
		if i > 0 && i%5000 == 0 {
			require.NoError(t, l.now().Close())
			l.replace(openCluster(t, cfg, 1))
		}
	}
	require.NoError(t, p.Flush(t.Context()))
	require.Empty(t, bad)
	require.Equal(t, numbered(n), read(t, l.now(), 0))
	require.NoError(t, p.Close())
	require.NoError(t, l.now().Close())
}

func TestIdempotenceHoldsOverPowerCutsOfTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // R5, with D1
		fs := vfs.Mem()
		cfg := strata.Config{FS: fs, Defaults: topic.Config{Log: log.Config{SegmentBytes: 100_000}}}
		l := (&lossy{c: openCluster(t, cfg, 1), rnd: rand.New(rand.NewPCG(3, 3)), chance: 20, delay: true}).on(t)
		p, err := producer.New(l, producer.Config{BatchBytes: 2000, MaxRequestBytes: 2000, MaxBufferedBytes: 100_000, RetryBackoff: time.Millisecond, RetryBackoffMax: 10 * time.Millisecond})
		require.NoError(t, err)
		const n = 100_000
		acknowledged := 0
		for i := range n {
			p.SendAsync(t.Context(), record.Record{Topic: "a", Value: fmt.Append(nil, i)}, func(_ record.Record, err error) {
				if err == nil {
					acknowledged++
				}
			})
			if i > 0 && i%10_000 == 0 {
				before := l.now()
				l.die()
				// a crash image of the disk; the old cluster runs on, unused
				fs = fs.Crash(uint64(i))
				cfg.FS = fs
				l.replace(openCluster(t, cfg, 1))
				require.NoError(t, before.Close())
			}
		}
		require.NoError(t, p.Flush(t.Context()))
		got := read(t, l.now(), 0)
		require.NoError(t, p.Close())
		require.NoError(t, l.now().Close())
		require.Equal(t, n, acknowledged)
		require.True(t, slices.Equal(numbered(n), got), "%d records, in order, each once", len(got))
	})
}

func TestAddedPartitionsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCluster(t, strata.Config{}, 1)
		p, err := producer.New(over(t, c), producer.Config{})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), record.String("a", "", "x"))
		require.NoError(t, err)
		require.NoError(t, c.AddPartitions(t.Context(), "a", 4))
		acks, err := p.Send(t.Context(), record.String("a", "", "x").To(3))
		require.NoError(t, err)
		require.Equal(t, int32(3), acks[0].Partition)
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	})
}

func TestStoredBytesDoNotChangeWhenTheProducerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCluster(t, strata.Config{FS: vfs.Mem()}, 1)
		p, err := producer.New(over(t, c), producer.Config{BatchBytes: 500, MaxRequestBytes: 500})
		require.NoError(t, err)
		sendNumbers(t, p, 3000) // buffers are reused many times
		require.Equal(t, numbered(3000), read(t, c, 0))
		for range 100 { // the Send is cancelled while its batch is in flight
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			_, _ = p.Send(ctx, record.String("a", "", "given up"))
			cancel()
		}
		require.NoError(t, p.Flush(t.Context()))
		require.Equal(t, numbered(3000), read(t, c, 0)[:3000])
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	})
}

func TestBatchLargerThanTheTopicAllowsIsSplitOnACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Partitions: 1, Properties: map[string]string{"max.message.bytes": "1000"}}))
		p, err := producer.New(over(t, c), producer.Config{})
		require.NoError(t, err)
		rs := make([]record.Record, 1000)
		for i := range rs {
			rs[i] = record.Record{Topic: "a", Value: fmt.Append(nil, i)}
		}
		acks, err := p.Send(t.Context(), rs...)
		require.NoError(t, err)
		require.Equal(t, int64(999), acks[999].Offset)
		_, err = p.Send(t.Context(), record.Record{Topic: "a", Value: make([]byte, 2000)})
		require.ErrorIs(t, err, producer.ErrMessageTooLarge)
		require.Equal(t, numbered(1000), read(t, c, 0))
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	})
}

func TestSurvivesPowerLossOnceAcknowledged(t *testing.T) {
	for seed := range uint64(5) {
		fs := vfs.Mem()
		c, err := strata.Open(strata.Config{FS: fs, Defaults: topic.Config{Log: log.Config{SegmentBytes: 1 << 20}}})
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Partitions: 1}))
		p, err := producer.New(over(t, c), producer.Config{})
		require.NoError(t, err)
		sendNumbers(t, p, 500)
		after := fs.Crash(seed)
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
		c, err = strata.Open(strata.Config{FS: after})
		require.NoError(t, err)
		require.Equal(t, numbered(500), read(t, c, 0))
		require.NoError(t, c.Close())
	}
}
