package consumer_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// telling returns a cluster in memory. The contents of each record in the three partitions of "t"
// follow from its partition and offset: see requireTelling. If mixed is set, every other batch is
// compressed.
func telling(t *testing.T, n int, mixed bool) *strata.Cluster {
	t.Helper()
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{Partitions: 3}))
	var ps []*producer.Producer
	for _, codec := range []record.Codec{record.None, record.LZ4} {
		p, err := producer.New(c, producer.Config{Compression: codec, BatchBytes: 4 << 10})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		ps = append(ps, p)
	}
	for i := 0; i < n; {
		var rs []record.Record
		for ; i < n && len(rs) < 20; i++ {
			for p := range int32(3) {
				rs = append(rs, content(p, int64(i)).To(p))
			}
		}
		p := ps[0]
		if mixed && i%40 == 0 {
			p = ps[1]
		}
		_, err := p.Send(t.Context(), rs...)
		require.NoError(t, err)
	}
	return c
}

func content(p int32, offset int64) record.Record {
	return record.Record{
		Topic: "t", Key: fmt.Append(nil, offset), Value: fmt.Appendf(nil, "%d-%0150d", p, offset),
		Headers: []record.Header{{Key: "at", Value: fmt.Append(nil, p, offset)}},
	}
}

// requireTelling checks every field of a record.
func requireTelling(t *testing.T, r *record.Record) {
	t.Helper()
	want := content(r.Partition, r.Offset)
	require.Equal(t, "t", r.Topic)
	require.Equal(t, string(want.Key), string(r.Key))
	require.Equal(t, string(want.Value), string(r.Value))
	require.Equal(t, want.Headers, r.Headers)
}

func TestKeptRecordsDoNotChangeWhenOtherBatchesAreReleased(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		t.Run(fmt.Sprintf("compressed=%v", mixed), func(t *testing.T) {
			const n = 3000
			c := open(t, telling(t, n, mixed), consumer.Config{
				Topics: []string{"t"}, Reset: consumer.Earliest(), PartitionBytes: 16 << 10, MaxPollRecords: 70,
			})
			var kept []*consumer.Batch
			var single []record.Record
			rng := rand.New(rand.NewPCG(1, 2))
			for seen := 0; seen < 3*n; {
				if rng.IntN(8) == 0 {
					for _, r := range readUntilStopped(t, c, min(1+rng.IntN(30), 3*n-seen)) {
						single = append(single, r)
						seen++
					}
					continue
				}
				b, err := c.Poll(t.Context())
				require.NoError(t, err)
				for r := range b.All() {
					requireTelling(t, &r)
				}
				seen += b.Len()
				if rng.IntN(4) == 0 {
					kept = append(kept, b)
				} else {
					b.Release()
				}
			}
			for i := range single {
				requireTelling(t, &single[i])
			}
			for _, b := range kept {
				for r := range b.All() {
					requireTelling(t, &r)
				}
			}
		})
	}
}

func TestBatchesAreReleasedByOtherGoroutinesThanTheOneThatPolls(t *testing.T) {
	const n = 2000
	c := open(t, telling(t, n, false), consumer.Config{
		Topics: []string{"t"}, Reset: consumer.Earliest(), PartitionBytes: 16 << 10, MaxPollRecords: 70,
	})
	batches := make(chan *consumer.Batch, 4)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for b := range batches {
				for r := range b.All() {
					want := content(r.Partition, r.Offset)
					if !bytes.Equal(want.Key, r.Key) || !bytes.Equal(want.Value, r.Value) {
						t.Errorf("%s-%d at %d changed in a worker's hands", r.Topic, r.Partition, r.Offset)
					}
				}
				b.Release()
			}
		})
	}
	for seen := 0; seen < 3*n; {
		b, err := c.Poll(t.Context())
		require.NoError(t, err)
		seen += b.Len()
		batches <- b
	}
	close(batches)
	workers.Wait()
}

// readUntilStopped reads n records and ends the loop by Wakeup, so that the other fetched records
// are left for Poll.
func readUntilStopped(t *testing.T, c *consumer.Consumer, n int) (rs []record.Record) {
	t.Helper()
	for r, err := range c.Records(t.Context()) {
		require.NoError(t, err)
		if rs = append(rs, r); len(rs) == n {
			c.Wakeup()
		}
	}
	return rs
}

func TestReleasedBatchIsEmptyAndStillTellsWhatToCommit(t *testing.T) {
	c := open(t, telling(t, 10, false), consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest(), MaxPollRecords: 10})
	b, err := c.Poll(t.Context())
	require.NoError(t, err)
	n, offsets := b.Len(), b.Offsets()
	b.Release()
	b.Release()
	for range b.All() {
		t.Fatal("a released batch has records")
	}
	require.Equal(t, n, b.Len())
	require.Equal(t, offsets, b.Offsets())
	next, err := c.Poll(t.Context())
	require.NoError(t, err)
	for r := range next.All() {
		requireTelling(t, &r)
	}
}

func TestPollingWithReleaseTakesNoMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := openFull(t, 100, consumer.Config{MaxPollRecords: 10_000})
	all := func() {
		require.NoError(t, c.Seek(tp(0), 0))
		for n := 0; n < benchRecords; {
			b, err := c.Poll(t.Context())
			require.NoError(t, err)
			n += b.Len()
			b.Release()
		}
	}
	all() // c notices here that its batches are released
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all()
	runtime.ReadMemStats(&after)
	per := float64(after.TotalAlloc-before.TotalAlloc) / benchRecords
	// a seek drops the fetched records
	require.Less(t, per, 40.0, "bytes a record; one alone takes 136, its bytes 110")
	t.Logf("%.1f bytes a record", per)
}
