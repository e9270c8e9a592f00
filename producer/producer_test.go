package producer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// newProducer is New for tests. The producer is closed at the end of the test.
func newProducer(t testing.TB, b Backend, cfg Config) *Producer {
	t.Helper()
	p, err := New(b, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestSendReturnsOneAckPerRecordInOrder(t *testing.T) {
	f := newFake(map[string]int{"a": 1, "b": 2})
	p := newProducer(t, f, Config{})
	at := time.UnixMilli(1_700_000_000_123)
	acks, err := p.Send(t.Context(), value("a", 0), value("b", 1).To(1), record.Record{Topic: "a", Value: []byte("1"), Timestamp: at})
	require.NoError(t, err)
	require.Len(t, acks, 3)
	require.Equal(t, Ack{Partition: 0, Offset: 1, Timestamp: at}, acks[2])
	require.Equal(t, int32(1), acks[1].Partition)
	require.Equal(t, int64(0), acks[0].Offset)
	require.WithinDuration(t, time.Now(), acks[0].Timestamp, time.Minute)
	require.Equal(t, numbers(0, 2), f.values("a", 0))

	acks, err = p.Send(t.Context(), value("a", 2))
	require.NoError(t, err)
	require.Equal(t, int64(2), acks[0].Offset)
	require.Equal(t, int64(4), p.Stats().Acknowledged)
	require.Zero(t, p.Stats().BufferedBytes)
}

func TestErrorOfSendIsThatOfTheFirstRecordThatFailed(t *testing.T) {
	f := newFake(map[string]int{"a": 1, "b": 1})
	f.script = func(_ int, req *partition.ProduceRequest, _ *record.Batch) fate {
		if req.TopicPartition.Topic == "a" {
			return fate{err: partition.ErrInvalidTimestamp}
		}
		return fate{}
	}
	p := newProducer(t, f, Config{MaxRequestBytes: 1000})
	large := record.Record{Topic: "b", Value: make([]byte, 2000)} // refused before any request
	acks, err := p.Send(t.Context(), value("b", 0), value("a", 0), large)
	require.NoError(t, acks[0].Err)
	require.ErrorIs(t, acks[1].Err, partition.ErrInvalidTimestamp)
	require.ErrorIs(t, acks[2].Err, ErrMessageTooLarge)
	require.Equal(t, acks[1].Err, err)
}

func TestRecordsOfOneSendShareABatch(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{})
	var rs []record.Record
	for i := range 100 {
		rs = append(rs, value("a", i))
	}
	_, err := p.Send(t.Context(), rs...)
	require.NoError(t, err)
	require.Len(t, f.headers(), 1)
	require.Equal(t, numbers(0, 100), f.values("a", 0))
}

func TestBatchesAreAsLargeAsBatchBytesAllows(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{BatchBytes: 1000, MaxInFlight: 2, MaxBufferedBytes: 3000}) // one does not grow
	var rs []record.Record
	for i := range 300 {
		rs = append(rs, value("a", i))
	}
	rs[150].Value = make([]byte, 2000) // has a batch of its own
	_, err := p.Send(t.Context(), rs...)
	require.NoError(t, err)
	require.Greater(t, len(f.headers()), 3)
	for _, b := range f.headers() {
		require.True(t, b.Size() <= 1000 || b.RecordCount == 1, "%d bytes", b.Size())
	}
	require.Len(t, f.values("a", 0), 300)
}

func TestBytesMayBeUsedAgainAfterSendAsyncReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Millisecond} }
		p := newProducer(t, f, Config{})
		buf := make([]byte, 3)
		for i := range 1000 {
			copy(buf, fmt.Sprintf("%03d", i))
			p.SendAsync(t.Context(), record.Record{Topic: "a", Key: buf, Value: buf}, nil)
		}
		require.NoError(t, p.Flush(t.Context()))
		for i, v := range f.values("a", 0) {
			require.Equal(t, fmt.Sprintf("%03d", i), v)
		}
		require.NoError(t, p.Close())
	})
}

func TestRecordsAreCollectedWhileBatchesAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Millisecond} }
		p := newProducer(t, f, Config{})
		start := time.Now()
		p.SendAsync(t.Context(), value("a", 0), nil)
		synctest.Wait()
		require.Len(t, f.headers(), 1, "a lone record goes at once")
		for i := 1; i < 100; i++ {
			p.SendAsync(t.Context(), value("a", i), nil)
		}
		require.NoError(t, p.Flush(t.Context()))
		require.Len(t, f.headers(), 2)
		require.Equal(t, int32(99), f.headers()[1].RecordCount)
		require.Equal(t, 2*time.Millisecond, time.Since(start), "no waiting but for the backend")
		require.NoError(t, p.Close())
	})
}

func TestLingerWaitsForCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{Linger: 10 * time.Millisecond})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				_, err := p.Send(t.Context(), value("a", i))
				require.NoError(t, err)
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		require.Equal(t, 10*time.Millisecond, time.Since(start))
		require.Len(t, f.headers(), 1)

		p.SendAsync(t.Context(), value("a", 5), nil)
		start = time.Now()
		require.NoError(t, p.Flush(t.Context()))
		require.Zero(t, time.Since(start), "Flush ends lingering")
		require.NoError(t, p.Close())
	})
}

func TestCallbacksRunOnceAndInOrderPerPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 3})
		rnd := rand.New(rand.NewPCG(1, 2))
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate {
			// answers come in any order
			return fate{delay: time.Duration(1 + rnd.IntN(5000)), replyLost: rnd.IntN(5) == 0}
		}
		p := newProducer(t, f, Config{BatchBytes: 200, MaxRequestBytes: 200})
		var mu sync.Mutex
		got := map[int32][]int64{}
		for i := range 2000 {
			p.SendAsync(t.Context(), value("a", i), func(r record.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				require.NoError(t, err)
				got[r.Partition] = append(got[r.Partition], r.Offset)
				require.Equal(t, f.values("a", int(r.Partition))[r.Offset], string(r.Value))
			})
		}
		require.NoError(t, p.Flush(t.Context()))
		total := 0
		for _, offsets := range got {
			for i, o := range offsets {
				require.Equal(t, int64(i), o)
			}
			total += len(offsets)
		}
		require.Equal(t, 2000, total)
		require.NoError(t, p.Close())
	})
}

func TestSendAsyncFromACallback(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{})
	done := make(chan error, 1)
	var next func(i int) func(record.Record, error)
	next = func(i int) func(record.Record, error) {
		return func(_ record.Record, err error) {
			if err != nil || i == 100 {
				done <- err
				return
			}
			p.SendAsync(context.Background(), value("a", i), next(i+1))
		}
	}
	p.SendAsync(t.Context(), value("a", 0), next(1))
	require.NoError(t, <-done)
	require.Equal(t, numbers(0, 100), f.values("a", 0))
}

func TestRecordsThatAreTooLargeAreRefusedBeforeBatching(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{MaxRequestBytes: 1000})
	_, err := p.Send(t.Context(), record.String("a", "", strings.Repeat("x", 1000)))
	require.ErrorIs(t, err, ErrMessageTooLarge)
	_, err = p.Send(t.Context(), record.String("a", "", strings.Repeat("x", 900)))
	require.NoError(t, err)
	require.Len(t, f.headers(), 1)
}

func TestTimestampsBefore1970AreRefused(t *testing.T) {
	p := newProducer(t, newFake(map[string]int{"a": 1}), Config{})
	_, err := p.Send(t.Context(), record.Record{Topic: "a", Timestamp: time.UnixMilli(-5)})
	require.ErrorIs(t, err, ErrInvalidTimestamp)
}

func TestTimestampsBefore1970AreSentOnRequest(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{NegativeTimestamps: true})
	for i, ms := range []int64{-1, -5, 5} {
		acks, err := p.Send(t.Context(), record.Record{Topic: "a", Timestamp: time.UnixMilli(ms)})
		require.NoError(t, err)
		require.Equal(t, ms, acks[0].Timestamp.UnixMilli())
		require.Equal(t, ms, f.headers()[i].MaxTimestamp)
	}
}

func TestCompressedBatchesArriveWhole(t *testing.T) {
	for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{Compression: codec})
		for range 3 { // buffers are reused
			var rs []record.Record
			for range 500 {
				rs = append(rs, record.String("a", "key", strings.Repeat("v", 50)))
			}
			_, err := p.Send(t.Context(), rs...)
			require.NoError(t, err)
		}
		require.Equal(t, codec, f.part("a", 0).codec)
		require.Len(t, f.values("a", 0), 1500)
		require.Less(t, f.headers()[0].Size(), 10000)
	}
}

func TestContextEndsTheWaitButNotTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Second} }
		p := newProducer(t, f, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		acks, err := p.Send(ctx, value("a", 0))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, acks[0].Err, context.DeadlineExceeded)
		require.Equal(t, time.Millisecond, time.Since(start))
		require.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded)
		require.NoError(t, p.Flush(t.Context()))
		require.Equal(t, numbers(0, 1), f.values("a", 0))
		require.NoError(t, p.Close())

		_, err = p.Send(ctx, value("a", 1))
		require.ErrorIs(t, err, context.DeadlineExceeded, "ended before the call")
	})
}
