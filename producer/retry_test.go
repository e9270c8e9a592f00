package producer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// sendNumbers sends n records asynchronously. It returns their errors after all callbacks have
// run.
func sendNumbers(t *testing.T, p *Producer, name string, n int) []error {
	t.Helper()
	errs := make([]error, n)
	for i := range n {
		p.SendAsync(t.Context(), value(name, i), func(_ record.Record, err error) { errs[i] = err })
	}
	require.NoError(t, p.Flush(t.Context()))
	return errs
}

// unreliable answers after a while, and loses replies and requests with the given chances in
// percent.
func unreliable(seed uint64, replies, requests int) func(int, *partition.ProduceRequest, *record.Batch) fate {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(int, *partition.ProduceRequest, *record.Batch) fate {
		return fate{replyLost: rnd.IntN(100) < replies, lost: rnd.IntN(100) < requests, delay: time.Duration(1+rnd.IntN(10)) * time.Millisecond}
	}
}

func TestLostRepliesLeadToNoDuplicateNoGapAndNoReordering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = unreliable(1, 20, 0)
		// little memory, so buffers are reused
		p := newProducer(t, f, Config{BatchBytes: 2000, MaxRequestBytes: 2000, MaxBufferedBytes: 50_000})
		const n = 100_000
		for i, err := range sendNumbers(t, p, "a", n) {
			require.NoError(t, err, i)
		}
		require.Equal(t, numbers(0, n), f.values("a", 0))
		require.Equal(t, 5, f.most, "in flight")
		require.Greater(t, p.Stats().Duplicates, int64(20))
		require.Zero(t, p.Stats().EpochBumps)
		require.NoError(t, f.checkKept())
		require.NoError(t, p.Close())
	})
}

func TestLostRequestsAndRepliesTogether(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(map[string]int{"a": 1})
			f.script = unreliable(seed, 20, 20)
			p := newProducer(t, f, Config{BatchBytes: 500, MaxBufferedBytes: 10_000, Compression: record.Codec(seed % 5)})
			for i, err := range sendNumbers(t, p, "a", 3000) {
				require.NoError(t, err, i)
			}
			require.Equal(t, numbers(0, 3000), f.values("a", 0), "seed %d", seed)
			require.NoError(t, f.checkKept())
			require.NoError(t, p.Close())
		})
	}
}

func TestWithoutIdempotenceALostReplyYieldsADuplicate(t *testing.T) {
	// the twin of TestLostRepliesLeadToNoDuplicateNoGapAndNoReordering
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = unreliable(1, 20, 0)
		p := newProducer(t, f, Config{BatchBytes: 2000, MaxRequestBytes: 2000, NoIdempotence: true})
		for i, err := range sendNumbers(t, p, "a", 5000) {
			require.NoError(t, err, i)
		}
		got := f.values("a", 0)
		require.Greater(t, len(got), 5000)
		require.Equal(t, numbers(0, 5000), firstOnes(got), "nothing is missing, and first copies are in order")
		require.Equal(t, 1, f.most)
		require.NoError(t, p.Close())
	})
}

// firstOnes returns s without repeated strings.
func firstOnes(s []string) (first []string) {
	seen := map[string]bool{}
	for _, v := range s {
		if !seen[v] {
			seen[v] = true
			first = append(first, v)
		}
	}
	return first
}

func TestNoRetriesReportsTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate { return fate{replyLost: n == 0} }
		p := newProducer(t, f, Config{Retries: NoRetries, NoIdempotence: true})
		_, err := p.Send(t.Context(), value("a", 0))
		require.ErrorIs(t, err, partition.ErrTimeout)
		_, err = p.Send(t.Context(), value("a", 1))
		require.NoError(t, err)
		require.Equal(t, numbers(0, 2), f.values("a", 0), "at most once: the first is there, but nobody sent it twice")
		require.Equal(t, int64(-1), f.headers()[0].ProducerID)
		require.NoError(t, p.Close())
	})
}

func TestRetriesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate {
			return fate{err: partition.ErrNotEnoughReplicas}
		}
		p := newProducer(t, f, Config{Retries: 3})
		_, err := p.Send(t.Context(), value("a", 0))
		require.ErrorIs(t, err, ErrNotEnoughReplicas)
		require.Len(t, f.headers(), 4)
		require.NoError(t, p.Close())
	})
}

func TestBackoffDoublesUpToItsLimitAndJitters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		var at []time.Time
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate {
			at = append(at, time.Now())
			return fate{err: partition.ErrNotEnoughReplicas}
		}
		p := newProducer(t, f, Config{DeliveryTimeout: 20 * time.Second})
		start := time.Now()
		_, err := p.Send(t.Context(), value("a", 0))
		require.ErrorIs(t, err, ErrTimeout)
		require.ErrorIs(t, err, ErrNotEnoughReplicas, "the reason is told")
		require.Contains(t, err.Error(), "not sent", "nothing can be in the log")
		require.Equal(t, 20*time.Second, time.Since(start))
		want := []float64{0.1, 0.2, 0.4, 0.8, 1, 1, 1}
		for i, w := range want {
			require.InDelta(t, w, at[i+1].Sub(at[i]).Seconds(), w*0.21)
		}
		require.Equal(t, int64(1), p.Stats().Expired)
		require.NoError(t, p.Close())
	})
}

func TestAcksNoneNoticesNoLoss(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate { return fate{lost: n == 0} }
	p := newProducer(t, f, Config{Acks: record.AcksNone})
	for i := range 2 {
		acks, err := p.Send(t.Context(), value("a", i))
		require.NoError(t, err)
		require.Equal(t, int64(-1), acks[0].Offset)
	}
	require.Equal(t, numbers(1, 2), f.values("a", 0))
	require.Len(t, f.headers(), 2)
	require.Equal(t, int64(-1), f.headers()[0].ProducerID)
}

func TestWeakerAcksSwitchIdempotenceOff(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	var acks record.Acks
	f.script = func(_ int, req *partition.ProduceRequest, _ *record.Batch) fate { acks = req.Acks; return fate{} }
	p := newProducer(t, f, Config{Acks: record.AcksLeader})
	_, err := p.Send(t.Context(), value("a", 0))
	require.NoError(t, err)
	require.Equal(t, record.AcksLeader, acks)
	require.Equal(t, int64(-1), f.headers()[0].ProducerID)
}

func TestLargeRecordsComeBackThroughThePool(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{MaxRequestBytes: 4 << 20, BatchBytes: 1 << 10})
	for _, n := range []int{10, 3 << 20, 10, 100_000, 10} {
		_, err := p.Send(t.Context(), record.String("a", "", strings.Repeat("x", n)))
		require.NoError(t, err)
	}
	for i, n := range []int{10, 3 << 20, 10, 100_000, 10} {
		require.Len(t, f.values("a", 0)[i], n)
	}
}
