package producer

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

const roundTrip = 10 * time.Millisecond

// newDistant returns a backend that answers after roundTrip, with topic "a".
func newDistant(partitions int) *fake {
	f := newFake(map[string]int{"a": partitions})
	f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: roundTrip} }
	return f
}

// sendKiB sends a record to each partition, then n more asynchronously, and returns the time from
// then until all are acknowledged.
func sendKiB(t *testing.T, p *Producer, partitions, n int) time.Duration {
	t.Helper()
	r := record.Record{Topic: "a", Value: make([]byte, 1<<10)}
	for i := range partitions {
		_, err := p.Send(t.Context(), r.To(int32(i)))
		require.NoError(t, err)
	}
	began := time.Now()
	for range n {
		p.SendAsync(t.Context(), r, func(_ record.Record, err error) { require.NoError(t, err) })
	}
	require.NoError(t, p.Flush(t.Context()))
	return time.Since(began)
}

// largestBatch returns the size of the largest batch that the backend received, from number first
// on.
func (f *fake) largestBatch(first int) (n int) {
	for _, b := range f.headers()[first:] {
		n = max(n, b.Size())
	}
	return n
}

func TestBatchesGrowWhileTheyWaitForABackendThatIsFarAway(t *testing.T) {
	for name, cfg := range map[string]Config{
		"defaults":      {},
		"linger":        {Linger: time.Millisecond},
		"one in flight": {NoIdempotence: true},
		"large records": {BatchBytes: 1 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newDistant(1)
				p := newProducer(t, f, cfg)
				require.LessOrEqual(t, sendKiB(t, p, 1, 16<<10), 20*roundTrip, "16 MiB")
				require.Greater(t, f.largestBatch(0), 1<<20-2<<10)
				require.LessOrEqual(t, f.largestBatch(0), 1<<20)
				require.NoError(t, p.Close())
			})
		})
	}
}

// Without it hundreds of small batches wait when the first response comes, and then pass in groups
// of MaxInFlight.
func TestBatchesGrowBeforeTheFirstResponseOfABackendThatIsFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newDistant(1)
		p := newProducer(t, f, Config{})
		r := record.Record{Topic: "a", Value: make([]byte, 1<<10)}
		began := time.Now()
		p.SendAsync(t.Context(), r, nil)
		time.Sleep(roundTrip / 2) // in the bubble: the first record is in flight
		for range 16 << 10 {
			p.SendAsync(t.Context(), r, func(_ record.Record, err error) { require.NoError(t, err) })
		}
		require.NoError(t, p.Flush(t.Context()))
		require.LessOrEqual(t, time.Since(began), 6*roundTrip, "16 MiB in requests of 5 MiB")
		require.LessOrEqual(t, f.largestBatch(0), 1<<20)
		require.NoError(t, p.Close())
	})
}

func TestBatchesForACloseBackendStaySmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Millisecond} }
		p := newProducer(t, f, Config{})
		sendKiB(t, p, 1, 4<<10)
		require.LessOrEqual(t, f.largestBatch(0), p.cfg.BatchBytes)
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: roundTrip} }
		f.change(func() { f.part("a", 0).leader, f.part("a", 0).epoch = 2, 1 }) // on another continent
		synctest.Wait()
		sendKiB(t, p, 1, 4<<10)
		require.Greater(t, f.largestBatch(0), p.cfg.BatchBytes)
		require.NoError(t, p.Close())
	})
}

// A batch that grows while it waits is sent when it would have been sent otherwise.
func TestRecordsInABatchThatGrowsAreSentAsSoonAsTheWindowMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newDistant(1)
		p := newProducer(t, f, Config{MaxInFlight: 2})
		sendKiB(t, p, 1, 0)
		began := time.Now()
		var settled []time.Duration
		send := func(n int) {
			for range n {
				r := record.Record{Topic: "a", Value: make([]byte, 1<<10)}
				p.SendAsync(t.Context(), r, func(record.Record, error) { settled = append(settled, time.Since(began)) })
			}
		}
		send(1)
		time.Sleep(roundTrip / 2) // in the bubble: the first record is in flight
		send(200)                 // a batch of BatchBytes is sent; the next batch waits and grows
		time.Sleep(3 * roundTrip) // Flush would complete the last batch
		synctest.Wait()
		require.Equal(t, []time.Duration{roundTrip, roundTrip * 3 / 2, 2 * roundTrip, 2 * roundTrip},
			[]time.Duration{settled[0], settled[1], settled[64], settled[200]})
		require.NoError(t, p.Close())
	})
}

func TestBatchesGrowNoFurtherThanMemoryAndSettingsAllow(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     Config
		largest int
	}{
		"every record has its own batch": {Config{BatchBytes: 1}, 1200},
		"a request is small":             {Config{MaxRequestBytes: 200 << 10}, 200 << 10},
		"a request is large":             {Config{MaxRequestBytes: 8 << 20}, 1 << 20},
		"six batches fill the memory":    {Config{MaxBufferedBytes: 600 << 10}, 100 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newDistant(1)
				p := newProducer(t, f, c.cfg)
				sendKiB(t, p, 1, 4<<10)
				require.LessOrEqual(t, f.largestBatch(0), c.largest)
				require.Greater(t, f.largestBatch(0), c.largest-2<<10)
				require.NoError(t, p.Close())
			})
		})
	}
}

func TestTopicThatTakesSmallBatchesSoonGetsNoLargerOnes(t *testing.T) {
	for name, codec := range map[string]record.Codec{"none": record.None, "lz4": record.LZ4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"a": 1})
				limit := 150 << 10
				if codec != record.None {
					limit = 2 << 10
				}
				f.script = func(_ int, _ *partition.ProduceRequest, b *record.Batch) fate {
					if b.Size() > limit {
						return fate{delay: roundTrip, err: partition.ErrRecordTooLarge}
					}
					return fate{delay: roundTrip}
				}
				p := newProducer(t, f, Config{Compression: codec, MaxInFlight: 1})
				sendKiB(t, p, 1, 8<<10)
				splits, first := p.Stats().Splits, len(f.headers())
				require.Positive(t, splits)
				sendKiB(t, p, 1, 8<<10)
				require.Equal(t, splits, p.Stats().Splits)
				require.LessOrEqual(t, f.largestBatch(first), limit)
				if codec == record.None {
					require.Greater(t, f.largestBatch(first), 64<<10, "batches still grow")
				}
				require.Len(t, f.values("a", 0), 16<<10+2)
				require.Zero(t, p.Stats().BufferedBytes)
				require.NoError(t, p.Close())
			})
		})
	}
}

func TestMemoryOfBatchesThatGrewIsNotSpentOnSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducer(t, newDistant(1), Config{})
		sendKiB(t, p, 1, 4<<10)
		synctest.Wait() // batches are free only after their callbacks
		require.NotEmpty(t, p.batches.large.list)
		for b := p.batches.get(&p.batches.small); b != nil; b = p.batches.get(&p.batches.small) {
			require.LessOrEqual(t, b.builder.Cap(), largeBatch*p.cfg.BatchBytes)
		}
		require.NoError(t, p.Close())
	})
}

func TestMemoryOfBatchesThatGrewIsUsedAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection drops free batches
	synctest.Test(t, func(t *testing.T) {
		p := newProducer(t, newDistant(1), Config{MaxInFlight: 1})
		r := record.Record{Topic: "a", Value: make([]byte, 1<<10)}
		trips := func(n int) { // in each, a batch grows and is sent before it is full
			for range n {
				for range 300 {
					p.SendAsync(t.Context(), r, nil)
				}
				time.Sleep(roundTrip) // in the bubble
			}
			require.NoError(t, p.Flush(t.Context()))
			synctest.Wait()
		}
		free := func() (bytes int) {
			var all []*batch
			for b := p.batches.get(&p.batches.large); b != nil; b = p.batches.get(&p.batches.large) {
				bytes += b.builder.Cap()
				all = append(all, b)
			}
			for _, b := range all {
				p.batches.put(&p.batches.large, b)
			}
			return bytes
		}
		trips(100)
		// A sync.Pool keeps some for each processor.
		require.Less(t, free(), 300*100<<10/2, "half of the bytes that were sent")
		require.NoError(t, p.Close())
	})
}

func TestStickyPartitionerTurnsToOtherPartitionsWhileBatchesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newDistant(4)
		sticky := &inOrder{}
		p := newProducer(t, f, Config{Partitioner: sticky})
		sendKiB(t, p, 4, 8<<10)
		require.Greater(t, sticky.at, 100, "turns of BatchBytes, of which there are 132")
		require.Greater(t, f.largestBatch(0), 500<<10)
		require.NoError(t, p.Close())
	})
}
