package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// ask returns a fetch request for partitions 0 to n-1 of a topic from their start.
func ask(name string, n int, req partition.FetchRequest) *partition.FetchRequest {
	for i := range n {
		req.Partitions = append(req.Partitions, partition.FetchPartition{TopicPartition: at(name, int32(i)), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
	}
	return &req
}

// inBubble runs fn in virtual time with a cluster in memory.
func inBubble(t *testing.T, fn func(t *testing.T, c *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3}))
		fn(t, c)
	})
}

func TestFetchWaitsForTheFirstRecordOfAPartitionWithoutFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		start := time.Now()
		time.AfterFunc(time.Second, func() { produce(t, c, at("orders", 1), "x") })
		resp, err := c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{MaxWait: time.Minute}))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		require.NotEmpty(t, resp.Partitions[1].Bytes)
		require.Equal(t, int64(1), resp.Partitions[1].HighWatermark)
		require.Empty(t, resp.Partitions[0].Bytes)
	})
}

func TestFetchWaitsForNewRecordsOfAnOpenPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		for i := range 3 {
			produce(t, c, at("orders", int32(i)), "old")
		}
		req := ask("orders", 3, partition.FetchRequest{MaxWait: time.Minute})
		for i := range req.Partitions {
			req.Partitions[i].Offset = 1
		}
		start := time.Now()
		time.AfterFunc(time.Second, func() { produce(t, c, at("orders", 2), "new") })
		resp, err := c.Fetch(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		require.NotEmpty(t, resp.Partitions[2].Bytes)
	})
}

func TestFetchReturnsEmptyAfterMaxWait(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		start := time.Now()
		resp, err := c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{MaxWait: 500 * time.Millisecond}))
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		for _, p := range resp.Partitions {
			require.NoError(t, p.Err)
			require.Empty(t, p.Bytes)
			require.NotNil(t, p.Aborted, "read committed: a list, though an empty one")
		}
	})
}

func TestFetchReservesMemoryBeforeItReads(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		produce(t, c, at("orders", 0), "x")
		reserved, most := 0, 0
		req := ask("orders", 1, partition.FetchRequest{MaxBytes: 1000, MinBytes: 100, MaxWait: time.Minute})
		req.Reserve = func(_ context.Context, n int) error {
			require.Zero(t, reserved, "a fetch that waits holds nothing")
			reserved += n
			most = max(most, reserved)
			return nil
		}
		req.Release = func(n int) { reserved -= n }
		time.AfterFunc(time.Second, func() { produce(t, c, at("orders", 0), "y") })
		resp, err := c.Fetch(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, 1000, most)
		require.Len(t, resp.Partitions[0].Bytes, reserved)

		reserved = 0
		failure := errors.New("no memory")
		req.Reserve = func(context.Context, int) error { return failure }
		_, err = c.Fetch(t.Context(), req)
		require.ErrorIs(t, err, failure)
		require.Zero(t, reserved)
	})
}

func TestMinBytesSpanPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		one := len(batch("x"))
		for i := range 3 {
			time.AfterFunc(time.Duration(i+1)*time.Second, func() { produce(t, c, at("orders", int32(i)), "x") })
		}
		start := time.Now()
		resp, err := c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{MinBytes: 3 * one, MaxWait: time.Minute}))
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))
		for _, p := range resp.Partitions {
			require.Len(t, p.Bytes, one)
		}
		resp, err = c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{MinBytes: 3*one + 1, MaxWait: time.Minute}))
		require.NoError(t, err)
		require.Equal(t, 63*time.Second, time.Since(start), "not enough: all of MaxWait")
		require.Len(t, resp.Partitions[0].Bytes, one, "and then what there is")
	})
}

func TestMinBytesAboveMaxBytesCountAsMaxBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		produce(t, c, at("orders", 0), "x")
		start := time.Now()
		_, err := c.Fetch(t.Context(), ask("orders", 1, partition.FetchRequest{MinBytes: 1 << 20, MaxBytes: 10, MaxWait: time.Minute}))
		require.NoError(t, err)
		require.Equal(t, start, time.Now())
	})
}

func TestFetchIsEndedByItsContextByCloseAndByDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{})
		require.NoError(t, err)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Partitions: 2}))
			produce(t, c, at(name, 0), "x") // partition 1 has no files
		}
		wait := func(ctx context.Context, name string) (*partition.FetchResponse, error) {
			req := ask(name, 2, partition.FetchRequest{MaxWait: time.Hour})
			req.Partitions[0].Offset = 1
			return c.Fetch(ctx, req)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = wait(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))

		time.AfterFunc(time.Second, func() { require.NoError(t, c.DeleteTopic(context.Background(), "b")) })
		resp, err := wait(t.Context(), "b")
		require.NoError(t, err)
		require.ErrorIs(t, resp.Partitions[0].Err, ErrUnknownTopic)
		require.ErrorIs(t, resp.Partitions[1].Err, ErrUnknownTopic)
		require.Equal(t, int64(-1), resp.Partitions[0].HighWatermark)

		time.AfterFunc(time.Second, func() { require.NoError(t, c.Close()) })
		_, err = wait(t.Context(), "c")
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, 3*time.Second, time.Since(start))
		_, err = wait(t.Context(), "c")
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, c.Close())
	})
}

func TestPositionsInATopicThatWasCreatedAgainAreRefusedByItsID(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		old, _ := c.TopicID("orders")
		produce(t, c, at("orders", 0), "old")
		req := ask("orders", 2, partition.FetchRequest{MaxWait: time.Hour})
		req.Partitions[0].TopicID, req.Partitions[0].Offset, req.Partitions[1].TopicID = old, 1, old
		time.AfterFunc(time.Second, func() {
			require.NoError(t, c.DeleteTopic(context.Background(), "orders"))
			require.NoError(t, c.CreateTopic(context.Background(), "orders", topic.Config{Partitions: 3}))
			produce(t, c, at("orders", 0), "new", "new")
		})
		resp, err := c.Fetch(t.Context(), req)
		require.NoError(t, err)
		for _, got := range resp.Partitions {
			require.Empty(t, got.Bytes, "nothing of the new topic at a position in the old one")
		}
		synctest.Wait()
		resp, err = c.Fetch(t.Context(), req)
		require.NoError(t, err)
		require.ErrorIs(t, resp.Partitions[0].Err, partition.ErrInconsistentTopicID)
		require.ErrorIs(t, resp.Partitions[1].Err, partition.ErrInconsistentTopicID)
		req.Partitions[0].TopicID, _ = c.TopicID("orders")
		resp, err = c.Fetch(t.Context(), req)
		require.NoError(t, err)
		require.NoError(t, resp.Partitions[0].Err)
		require.NotEmpty(t, resp.Partitions[0].Bytes)
	})
}

func TestEachPartitionOfAFetchHasItsOwnError(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 2)
	produce(t, c, at("orders", 0), "x")
	resp, err := c.Fetch(t.Context(), &partition.FetchRequest{MaxWait: time.Hour, Partitions: []partition.FetchPartition{
		{TopicPartition: at("orders", 0), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
		{TopicPartition: at("orders", 0), CurrentLeaderEpoch: 7, LastFetchedEpoch: -1},
		{TopicPartition: at("orders", 0), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Offset: 2},
		{TopicPartition: at("orders", 1), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Offset: 1},
		{TopicPartition: at("orders", 1), CurrentLeaderEpoch: 1, LastFetchedEpoch: -1},
		{TopicPartition: at("orders", 2), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
		{TopicPartition: at("none", 0), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
		{TopicPartition: at("orders", -1), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
		{TopicPartition: at("orders", 1), CurrentLeaderEpoch: 0, LastFetchedEpoch: -1},
	}})
	require.NoError(t, err)
	for i, want := range []error{
		nil, partition.ErrUnknownLeaderEpoch, partition.ErrOffsetOutOfRange, partition.ErrOffsetOutOfRange, partition.ErrUnknownLeaderEpoch,
		ErrUnknownTopic, ErrUnknownTopic, ErrUnknownTopic, nil,
	} {
		if want == nil {
			require.NoError(t, resp.Partitions[i].Err, i)
			require.NotEqual(t, int64(-1), resp.Partitions[i].HighWatermark)
			continue
		}
		require.ErrorIs(t, resp.Partitions[i].Err, want, i)
		require.Equal(t, int64(-1), resp.Partitions[i].HighWatermark, i)
	}
}

func TestOnlyTheFirstPartitionWithDataExceedsTheLimit(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 4)
	big := strings.Repeat("x", 1000)
	for i := range 3 {
		produce(t, c, at("orders", int32(i)+1), big) // partition 0 is empty
	}
	one := len(batch(big))
	sizes := func(req partition.FetchRequest) (n []int) {
		c.rotation.n.Store(0)
		resp, err := c.Fetch(t.Context(), ask("orders", 4, req))
		require.NoError(t, err)
		for i, p := range resp.Partitions {
			n = append(n, len(p.Bytes)/one)
			require.Equal(t, int64(min(i, 1)), p.HighWatermark, "told also where nothing was read")
		}
		return n
	}
	require.Equal(t, []int{0, 1, 1, 1}, sizes(partition.FetchRequest{}))
	require.Equal(t, []int{0, 1, 0, 0}, sizes(partition.FetchRequest{MaxBytes: 1}))
	require.Equal(t, []int{0, 1, 0, 0}, sizes(partition.FetchRequest{MaxBytes: one}))
	require.Equal(t, []int{0, 1, 0, 0}, sizes(partition.FetchRequest{MaxBytes: 2*one - 1}))
	require.Equal(t, []int{0, 1, 1, 0}, sizes(partition.FetchRequest{MaxBytes: 2 * one}))

	req := ask("orders", 4, partition.FetchRequest{})
	for i := range req.Partitions {
		req.Partitions[i].MaxBytes = 5
	}
	resp, err := c.Fetch(t.Context(), req)
	require.NoError(t, err)
	require.NotEmpty(t, resp.Partitions[1].Bytes)
	require.Empty(t, resp.Partitions[2].Bytes, "a partition's own limit lets the first batch through only once")
}

func TestNoPartitionStarvesBehindBusyOnes(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 5)
	for i := range 5 {
		produce(t, c, at("orders", int32(i)), strings.Repeat("x", 1000))
	}
	seen := map[int32]bool{}
	for range 5 {
		resp, err := c.Fetch(t.Context(), ask("orders", 5, partition.FetchRequest{MaxBytes: 100}))
		require.NoError(t, err)
		for i, p := range resp.Partitions {
			require.Equal(t, int32(i), p.Partition, "the answer keeps the order of the request")
			if len(p.Bytes) > 0 {
				seen[p.Partition] = true
			}
		}
	}
	require.Len(t, seen, 5)
}

func TestFirstAppendsToAPartitionKeepTheirOrder(t *testing.T) {
	for range 20 {
		c := open(t, vfs.Mem())
		create(t, c, "orders", 1)
		const n = 100
		results := make([]partition.ProduceResult, n)
		var wg sync.WaitGroup
		wg.Add(n)
		for i := range n { // the first appends come before there are files, the last ones after
			c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: batch(fmt.Sprint(i)), Done: func(r partition.ProduceResult) {
				results[i] = r
				wg.Done()
			}})
		}
		wg.Wait()
		for i, r := range results {
			require.NoError(t, r.Err)
			require.Equal(t, int64(i), r.BaseOffset)
		}
	}
}

func TestReadersAndWritersOfManyPartitions(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 6)
	const each = 50
	var wg sync.WaitGroup
	for p := range int32(6) {
		wg.Go(func() {
			for i := range each {
				tryProduce(c, at("orders", p), fmt.Sprint(i))
			}
		})
	}
	read := func() {
		req := ask("orders", 6, partition.FetchRequest{MaxWait: time.Minute, MinBytes: 100, MaxBytes: 700})
		for left := 6 * each; left > 0; {
			if left < 3 {
				req.MinBytes = 1
			}
			resp, err := c.Fetch(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			for i, got := range resp.Partitions {
				for p := got.Bytes; len(p) > 0; {
					b, n, err := record.Parse(p)
					if err != nil || b.BaseOffset != req.Partitions[i].Offset {
						t.Errorf("batch at %d instead of %d: %v", b.BaseOffset, req.Partitions[i].Offset, err)
						return
					}
					req.Partitions[i].Offset = b.NextOffset()
					left -= int(b.RecordCount)
					p = p[n:]
				}
			}
		}
	}
	for range 3 {
		wg.Go(read)
	}
	wg.Wait()
}

func TestFetchReadsIntoTheRequestsBufferAsLongAsItLasts(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		for i := range 3 {
			produce(t, c, at("orders", int32(i)), strings.Repeat(string(rune('a'+i)), 1000))
		}
		fresh, err := c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{InOrder: true}))
		require.NoError(t, err)
		size := len(fresh.Partitions[0].Bytes)
		for _, room := range []int{0, 10, size, 2*size + 10, 3 * size, 1 << 20} {
			buf := make([]byte, room)
			got, err := c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{InOrder: true, Buf: buf}))
			require.NoError(t, err)
			require.Equal(t, fresh, got)
			for i, p := range got.Partitions {
				inside := room >= (i+1)*size
				require.Equal(t, inside, inside && &p.Bytes[0] == &buf[i*size])
				if !inside && room > 0 {
					require.False(t, overlap(p.Bytes, buf))
				}
			}
		}
	})
}

// overlap reports whether writing to a changes b.
func overlap(a, b []byte) bool {
	before := bytes.Clone(b)
	for i := range a {
		a[i] ^= 0xff
	}
	return !bytes.Equal(before, b)
}
