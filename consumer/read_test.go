package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// places reads to the end and returns "partition:value" of each record.
func places(t *testing.T, b consumer.LogBackend, cfg consumer.ReadConfig) (got []string) {
	t.Helper()
	for r, err := range consumer.Read(t.Context(), over(t, b), cfg) {
		require.NoError(t, err)
		got = append(got, fmt.Sprintf("%d:%s", r.Partition, r.Value))
	}
	return got
}

func TestReadYieldsWhatWasThereWhenItBegan(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 0, 2)
		fill(t, c, 2, 1)
		var got []string
		for r, err := range consumer.Read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t"}) {
			require.NoError(t, err)
			require.Equal(t, "t", r.Topic)
			got = append(got, fmt.Sprintf("%d@%d:%s", r.Partition, r.Offset, r.Value))
			fill(t, c, 0, 1) // is added too late
			fill(t, c, 1, 1) // to a partition that was empty
		}
		require.ElementsMatch(t, []string{"0@0:0", "0@1:1", "2@0:0"}, got)
		require.Len(t, places(t, c, consumer.ReadConfig{Topic: "t"}), 9, "the next call reads what came meanwhile")
		require.NoError(t, c.CreateTopic(t.Context(), "empty", topic.Config{Partitions: 2}))
		require.Empty(t, places(t, c, consumer.ReadConfig{Topic: "empty"}))
	})
}

// late is a backend to which records are added between ListOffsets and the first fetch.
type late struct {
	*strata.Cluster
	fill func()
}

func (l *late) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	l.fill()
	return l.Cluster.Fetch(ctx, req)
}

func TestReadLeavesOutWhatCameAfterItAskedForTheEnds(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 0, 2)
		b := &late{c, func() { fill(t, c, 0, 3) }}
		require.Equal(t, []string{"0:0", "0:1"}, places(t, b, consumer.ReadConfig{Topic: "t"}))
	})
}

// lagging is a backend whose leader changes after ListOffsets: the new leader does not return the
// records at the first fetch yet.
type lagging struct {
	*strata.Cluster
	minBytes []int // by fetch
}

func (l *lagging) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	if l.minBytes = append(l.minBytes, req.MinBytes); len(l.minBytes) == 1 {
		return &partition.FetchResponse{Partitions: make([]partition.FetchedPartition, len(req.Partitions))}, nil
	}
	return l.Cluster.Fetch(ctx, req)
}

func TestReadAwaitsWhatANewLeaderDoesNotShowYet(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 0, 2)
		b := &lagging{Cluster: c}
		require.Equal(t, []string{"0:0", "0:1"}, places(t, b, consumer.ReadConfig{Topic: "t"}))
		require.Equal(t, []int{0, 1}, b.minBytes, "it does not ask again and again")
	})
}

func TestReadBeginsAndStaysWhereItIsTold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *strata.Cluster) {
		begun := time.Now()
		for p := range int32(3) {
			fill(t, c, p, 2)
			time.Sleep(time.Minute)
		}
		read := func(cfg consumer.ReadConfig) []string {
			cfg.Topic = "t"
			return places(t, c, cfg)
		}
		require.ElementsMatch(t, []string{"1:0", "1:1"}, read(consumer.ReadConfig{Partitions: []int32{1, 1}}), "named twice, read once")
		require.Empty(t, read(consumer.ReadConfig{Partitions: []int32{}}), "none is not all")
		require.Empty(t, read(consumer.ReadConfig{From: consumer.Latest()}))
		require.ElementsMatch(t, []string{"1:0", "1:1", "2:0", "2:1"}, read(consumer.ReadConfig{From: consumer.At(begun.Add(time.Second))}))
		require.ElementsMatch(t, []string{"0:1", "1:0", "1:1"}, read(consumer.ReadConfig{
			From: consumer.Latest(), Start: record.Offsets{tp(0): 1, tp(1): consumer.StartEarliest, tp(2): consumer.StartReset},
		}))
		require.ElementsMatch(t, []string{"0:0", "0:1", "1:0", "1:1"}, read(consumer.ReadConfig{Start: record.Offsets{tp(2): consumer.StartLatest}}))
	})
}

func TestReadMergesPartitionsByTime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *strata.Cluster) {
		pr, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		var want []string
		for i := range 60 {
			p := int32(i * 7 % 3)
			_, err := pr.Send(t.Context(), record.String("t", "", fmt.Sprint(i)).To(p))
			require.NoError(t, err)
			want = append(want, fmt.Sprintf("%d:%d", p, i))
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, pr.Close())
		require.Equal(t, want, places(t, c, consumer.ReadConfig{Topic: "t", ByTime: true}))
		require.Equal(t, want, places(t, c, consumer.ReadConfig{Topic: "t", ByTime: true, MaxBytes: 1}), "one batch of each at a time")
		require.NotEqual(t, want, places(t, c, consumer.ReadConfig{Topic: "t"}))
	})
}

// A reader of committed records reads the records that the model has, whatever the transactions
// did.
func TestReadHidesMarkersAndAbortedTransactions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 11), 1, 60).Draw(rt, "steps")
		maxBytes := rapid.SampledFrom([]int{1, 300, 0}).Draw(rt, "bytes")
		h := newHistory(rt)
		defer h.c.Close()
		for _, s := range steps {
			switch pid := int64(1000 + s%3); {
			case s < 6:
				h.write(pid, 1+s/3)
			case s < 9:
				h.write(0, 1)
			case len(h.open[pid]) > 0:
				h.end(pid, s%2 == 0)
			}
		}
		for _, iso := range []consumer.Isolation{consumer.ReadCommitted, consumer.ReadUncommitted} {
			var got []written
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			for r, err := range consumer.Read(ctx, over(t, h.c), consumer.ReadConfig{Topic: "t", Isolation: iso, MaxBytes: maxBytes}) {
				require.NoError(rt, err)
				got = append(got, written{r.Offset, string(r.Value)})
			}
			cancel()
			require.Equal(rt, h.visible(0, iso), got)
		}
	})
}

func TestReadWithoutAnErrorIsComplete(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		for range 4 {
			fill(t, c, 0, 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var failed error
		n := 0
		for _, err := range consumer.Read(ctx, over(t, c), consumer.ReadConfig{Topic: "t", MaxBytes: 1}) {
			if err != nil {
				failed = err
				continue
			}
			n++
			cancel()
		}
		require.ErrorIs(t, failed, context.Canceled)
		require.Less(t, n, 4)
		for _, err := range consumer.Read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t"}) {
			require.NoError(t, err)
			break // leaves no goroutine behind
		}
	})
}

func TestReadRefusesWhatItCannotRead(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 0, 3)
		first := func(cfg consumer.ReadConfig) error {
			for _, err := range consumer.Read(t.Context(), over(t, c), cfg) {
				return err
			}
			return nil
		}
		for name, cfg := range map[string]consumer.ReadConfig{
			"Topic":    {},
			"From":     {Topic: "t", From: consumer.Fail()},
			"MaxBytes": {Topic: "t", MaxBytes: -1},
			"Start":    {Topic: "t", Start: record.Offsets{{Topic: "other"}: 1}},
		} {
			var bad *consumer.ConfigError
			require.ErrorAs(t, first(cfg), &bad)
			require.Equal(t, name, bad.Name)
		}
		require.ErrorIs(t, first(consumer.ReadConfig{Topic: "nothing"}), replication.ErrUnknownTopic)
		require.ErrorIs(t, first(consumer.ReadConfig{Topic: "t", Partitions: []int32{1}}), replication.ErrUnknownTopic)
		require.ErrorIs(t, first(consumer.ReadConfig{Topic: "t", Start: record.Offsets{tp(0): 4}}), partition.ErrOffsetOutOfRange)
		require.NoError(t, first(consumer.ReadConfig{Topic: "t", Start: record.Offsets{tp(0): 3}}), "the end")
		var bad *consumer.ConfigError
		for _, err := range consumer.Follow(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t", ByTime: true}) {
			require.ErrorAs(t, err, &bad)
		}
		require.NotNil(t, bad)
	})
}

// counting keeps the most bytes that one answer to a fetch had.
type counting struct {
	*strata.Cluster
	most int
}

func (c *counting) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	resp, err := c.Cluster.Fetch(ctx, req)
	n := 0
	if err == nil {
		for _, p := range resp.Partitions {
			n += len(p.Bytes)
		}
	}
	c.most = max(c.most, n)
	return resp, err
}

func TestReadHoldsNoMoreThanItMay(t *testing.T) {
	bubble(t, 4, func(t *testing.T, c *strata.Cluster) {
		for range 50 {
			for p := range int32(4) {
				fill(t, c, p, 10)
			}
		}
		for _, byTime := range []bool{false, true} {
			b := &counting{Cluster: c}
			require.Len(t, places(t, b, consumer.ReadConfig{Topic: "t", MaxBytes: 2000, ByTime: byTime}), 2000)
			require.LessOrEqual(t, b.most, 2000)
			require.Positive(t, b.most)
		}
	})
}
