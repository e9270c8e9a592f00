package producer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// mixedRecords is n records of two topics that exist and of an unknown one. Some have keys,
// timestamps, headers or explicit partitions; some are too large or before 1970.
func mixedRecords(rng *rand.Rand, n int) []record.Record {
	rs := make([]record.Record, n)
	for i := range rs {
		r := record.Record{Topic: "a", Value: fmt.Appendf(make([]byte, 0, 300), "%d", i)}
		switch rng.IntN(40) {
		case 0:
			r.Topic = "b"
		case 1:
			r = r.To(int32(rng.IntN(3)))
		case 2:
			r.Key = []byte{byte(rng.IntN(5))}
		case 3:
			r.Timestamp = time.UnixMilli(rng.Int64N(1 << 40))
		case 4:
			r.Headers = []record.Header{{Key: "h", Value: r.Value}}
		case 5:
			r.Value = r.Value[:rng.IntN(300)]
		case 6:
			r.Value = make([]byte, 5000)
		case 7:
			r.Timestamp = time.UnixMilli(-5)
		case 8:
			r.Topic = "unknown"
		}
		rs[i] = r
	}
	return rs
}

func TestSendAllAsyncDoesWhatSendAsyncDoesForEach(t *testing.T) {
	for _, partitioner := range []string{"in turn", "sticky", "by key"} {
		for seed := range uint64(40) {
			synctest.Test(t, func(t *testing.T) {
				rs := mixedRecords(rand.New(rand.NewPCG(seed, 3)), 500)
				each := sentBy(t, seed, partitioner, rs, false)
				all := sentBy(t, seed, partitioner, rs, true)
				for name, want := range each {
					got := all[name]
					require.Len(t, got, len(want), "%s, %s, seed %d", name, partitioner, seed)
					for i := range want {
						require.Equal(t, want[i], got[i], "%s, %s, seed %d", name, partitioner, seed)
					}
				}
				require.Len(t, all, len(each))
			})
		}
	}
}

// sentBy returns the results that the callbacks of rs received, by partition and in their order.
// Refused records are listed separately.
func sentBy(t *testing.T, seed uint64, partitioner string, rs []record.Record, all bool) map[string][]string {
	cfg := Config{BatchBytes: 4000, MaxRequestBytes: 4500, Linger: time.Second}
	switch asked := 0; partitioner {
	case "in turn":
		cfg.Partitioner = topic.PartitionerFunc(func(_ record.Record, n int) int { asked++; return asked % n })
	case "sticky":
		cfg.Partitioner = &inOrder{}
	default:
		cfg.Partitioner = topic.Hash()
	}
	f := newFake(map[string]int{"a": 3, "b": 3})
	p := newProducer(t, f, cfg)
	var mu sync.Mutex // guards got: records are refused while answers arrive
	got := map[string][]string{}
	done := func(r record.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		name := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
		if err != nil {
			name = "refused"
		}
		value := fmt.Sprintf("%.20q of %d bytes", r.Value, len(r.Value))
		got[name] = append(got[name], fmt.Sprint(value, r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), err))
	}
	rng := rand.New(rand.NewPCG(seed, 4))
	for len(rs) > 0 {
		n := min(len(rs), 1+rng.IntN(200))
		if part := rs[:n]; all {
			p.SendAllAsync(t.Context(), part, done)
		} else {
			for _, r := range part {
				p.SendAsync(t.Context(), r, done)
			}
		}
		rs = rs[n:]
	}
	require.NoError(t, p.Flush(t.Context()))
	require.Zero(t, p.Stats().BufferedBytes)
	require.NoError(t, p.Close())
	return got
}

// inOrder is a sticky partitioner without randomness.
type inOrder struct{ at, bytes int }

func (s *inOrder) Partition(_ record.Record, n int) int { return s.at % n }

func (s *inOrder) Appended(a topic.Appended) {
	if int(a.Partition) != s.at%a.Partitions || a.Topic != "a" {
		return
	}
	if s.bytes += a.Bytes; s.bytes >= a.BatchBytes && a.BatchFull || s.bytes >= 2*a.BatchBytes {
		s.at, s.bytes = s.at+1, 0
	}
}

func TestNoPartitionerIsAskedTwiceForARecordOfSendAllAsync(t *testing.T) {
	var asked atomic.Int64
	ask := topic.PartitionerFunc(func(r record.Record, n int) int {
		asked.Add(1)
		if r.Value[0]%7 == 0 {
			return topic.Refuse
		}
		return int(r.Value[0]/3) % n
	})
	p := newProducer(t, newFake(map[string]int{"a": 5}), Config{Partitioner: ask, BatchBytes: 300})
	rs := make([]record.Record, 200)
	for i := range rs {
		rs[i] = record.Record{Topic: "a", Value: []byte{byte(i)}}
	}
	var refused atomic.Int64
	p.SendAllAsync(t.Context(), rs, func(_ record.Record, err error) {
		if errors.Is(err, ErrRefused) {
			refused.Add(1)
		}
	})
	require.NoError(t, p.Flush(t.Context()))
	require.EqualValues(t, len(rs), asked.Load())
	require.EqualValues(t, 29, refused.Load())
}

func TestSendAllAsyncWaitsForMemoryAndSendsWhatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{MaxBufferedBytes: 2000, BatchBytes: 500, Linger: time.Hour})
		rs := make([]record.Record, 300)
		for i := range rs {
			rs[i] = value("a", i)
		}
		p.SendAllAsync(t.Context(), rs, nil)
		require.NoError(t, p.Flush(t.Context()))
		require.Len(t, f.values("a", 0), len(rs))
		require.True(t, slices.IsSortedFunc(f.values("a", 0), byNumber))
		require.NoError(t, p.Close())
	})
}

func TestSendersOfManyRecordsSideBySideKeepTheirOrderAndLeaveNoMemoryClaimed(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{BatchBytes: 500})
	const senders, records = 4, 2000
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			rs := make([]record.Record, records)
			for i := range rs {
				rs[i] = value("a", s*records+i)
			}
			for part := range slices.Chunk(rs, 50) {
				p.SendAllAsync(t.Context(), part, nil)
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Flush(t.Context()))
	got := f.values("a", 0)
	for s := range senders {
		var own []string
		for _, v := range got {
			if n, _ := strconv.Atoi(v); n/records == s {
				own = append(own, v)
			}
		}
		require.Equal(t, numbers(s*records, (s+1)*records), own)
	}
	require.Zero(t, p.Stats().BufferedBytes)
}

func TestARunThatFindsNoOpenBatchGivesItsMemoryBack(t *testing.T) {
	p := newProducer(t, newFake(map[string]int{"a": 1}), Config{})
	s := runSender{p: p}
	rs := []record.Record{value("a", 0), value("a", 1)}
	var at placement
	require.NoError(t, p.prepare(t.Context(), &rs[0], nil, &at))
	require.True(t, p.memory.tryAcquire(2*at.size))
	require.Zero(t, s.putRun(rs, 2*at.size, &at))
	require.Zero(t, p.Stats().BufferedBytes)
}

func byNumber(a, b string) int {
	var x, y int
	fmt.Sscan(a, &x)
	fmt.Sscan(b, &y)
	return x - y
}

func TestSendAllAsyncAfterCloseRefusesEachRecord(t *testing.T) {
	p := newProducer(t, newFake(map[string]int{"a": 1}), Config{})
	require.NoError(t, p.Close())
	refused := 0
	p.SendAllAsync(t.Context(), []record.Record{value("a", 0), value("a", 1)}, func(_ record.Record, err error) {
		require.ErrorIs(t, err, ErrClosed)
		refused++
	})
	require.Equal(t, 2, refused)
}

// While batches fill up by themselves, the sender does not send a partial batch early. If records
// come slowly, or a caller waits, it delays no record.
func TestBatchesGatherRecordsOnlyWhileTheyFillUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{BatchBytes: 4000})
		latencies := make(chan time.Duration, 1)
		latency := func() time.Duration {
			begin := time.Now()
			p.SendAsync(t.Context(), value("a", 0), func(record.Record, error) { latencies <- time.Since(begin) })
			return <-latencies
		}
		require.Zero(t, latency(), "an idle producer")
		for range 5 {
			p.coarse.full(coarseFrom, 0) // as after a full batch
			before := len(f.headers())
			for range 2000 { // of some eight bytes each: four batches
				p.SendAsync(t.Context(), value("a", 1), nil)
				synctest.Wait() // the sender has nothing else to do
			}
			require.InDelta(t, 4, len(f.headers())-before, 1, "batches")
			require.LessOrEqual(t, latency(), coarseTick, "the next tick sends it")
			p.SendAsync(t.Context(), value("a", 1), nil)
			begin := time.Now()
			_, err := p.Send(t.Context(), value("a", 2))
			require.NoError(t, err)
			require.Zero(t, time.Since(begin), "a caller waits")
		}
		require.NoError(t, p.Flush(t.Context()))
		time.Sleep(time.Second)
		require.Zero(t, latency(), "an idle producer")
		require.NoError(t, p.Close())
	})
}
