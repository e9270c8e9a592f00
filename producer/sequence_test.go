package producer

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

func TestBatchesCarryIdEpochAndAGrowingSequence(t *testing.T) {
	f := newFake(map[string]int{"a": 2})
	p := newProducer(t, f, Config{})
	for i := range 3 {
		_, err := p.Send(t.Context(), value("a", i).To(0), value("a", i).To(0))
		require.NoError(t, err)
	}
	_, err := p.Send(t.Context(), value("a", 9).To(1))
	require.NoError(t, err)
	for i, want := range []int32{0, 2, 4, 0} {
		b := f.headers()[i]
		require.Equal(t, []any{int64(1001), int16(0), want}, []any{b.ProducerID, b.ProducerEpoch, b.BaseSequence})
	}
}

func TestSequenceStaysTheSameOnRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			return fate{delay: time.Millisecond, lost: n == 2}
		}
		p := newProducer(t, f, Config{BatchBytes: 100, MaxRequestBytes: 100})
		for _, err := range sendNumbers(t, p, "a", 40) {
			require.NoError(t, err)
		}
		sequences := map[int32]int32{}
		for _, b := range f.headers() {
			if n, ok := sequences[b.BaseSequence]; ok {
				require.Equal(t, n, b.RecordCount)
			}
			sequences[b.BaseSequence] = b.RecordCount
			require.Zero(t, b.ProducerEpoch)
		}
		require.Greater(t, p.Stats().Retries, int64(1), "those behind the lost one are sent again too")
		require.Equal(t, numbers(0, 40), f.values("a", 0))
		require.NoError(t, p.Close())
	})
}

func TestFirstBatchOfAnEpochGoesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			return fate{delay: time.Millisecond, lost: n == 0}
		}
		// a leader without state would take the second batch first
		p := newProducer(t, f, Config{BatchBytes: 100, MaxRequestBytes: 100})
		for _, err := range sendNumbers(t, p, "a", 40) {
			require.NoError(t, err)
		}
		require.Equal(t, numbers(0, 40), f.values("a", 0))
		require.Zero(t, p.Stats().EpochBumps)
		require.NoError(t, p.Close())
	})
}

func TestSequenceWrapsToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = unreliable(7, 20, 20)
		p := newProducer(t, f, Config{BatchBytes: 120, MaxRequestBytes: 120})
		_, err := p.Send(t.Context(), value("a", -1))
		require.NoError(t, err)
		pt := p.topics.get("a").view.Load().parts[0]
		pt.sequence = math.MaxInt32 - 20
		f.part("a", 0).producers[1001].last = []fakeBatch{{first: math.MaxInt32 - 21, last: math.MaxInt32 - 21}}
		for _, err := range sendNumbers(t, p, "a", 100) {
			require.NoError(t, err)
		}
		require.Equal(t, append([]string{"-1"}, numbers(0, 100)...), f.values("a", 0))
		require.Less(t, pt.sequence, int32(100))
		require.Zero(t, p.Stats().EpochBumps)
		require.NoError(t, p.Close())
	})
	require.Equal(t, int32(0), addSequence(math.MaxInt32, 1))
	require.Equal(t, int32(4), addSequence(math.MaxInt32-5, 10))
}

func TestLostProducerStateStartsANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{})
		for i := range 3 {
			_, err := p.Send(t.Context(), value("a", i))
			require.NoError(t, err)
		}
		// as after an unclean election
		f.part("a", 0).producers[1001].last = []fakeBatch{{first: 0, last: 0}}
		acks, err := p.Send(t.Context(), value("a", 3))
		require.NoError(t, err)
		require.Equal(t, int64(3), acks[0].Offset)
		last := f.headers()[len(f.headers())-1]
		require.Equal(t, []any{int16(1), int32(0)}, []any{last.ProducerEpoch, last.BaseSequence})
		require.Equal(t, int64(1), p.Stats().EpochBumps)
		require.NoError(t, p.Close())
	})
}

func TestRefusalAsOutOfOrderSaysThatABatchIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate { return fate{lost: n == 3} }
		p := newProducer(t, f, Config{})
		for i := range 3 {
			_, err := p.Send(t.Context(), value("a", i))
			require.NoError(t, err)
		}
		f.locked(func() { f.part("a", 0).producers[1001].last = []fakeBatch{{first: 0, last: 0}} })
		// the batch was lost, then out of order: it is not in the log, so a new epoch may begin
		_, err := p.Send(t.Context(), value("a", 3))
		require.NoError(t, err)
		require.Equal(t, numbers(0, 4), f.values("a", 0))
		require.Equal(t, int16(1), f.headers()[len(f.headers())-1].ProducerEpoch)
		require.NoError(t, f.checkKept())
		require.NoError(t, p.Close())
	})
}

func TestExpiredProducerStateIsNoProblem(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	p := newProducer(t, f, Config{})
	for i := range 3 {
		// a leader without state takes any sequence
		f.part("a", 0).producers = map[int64]*fakeProducer{}
		_, err := p.Send(t.Context(), value("a", i))
		require.NoError(t, err)
	}
	require.Equal(t, numbers(0, 3), f.values("a", 0))
	require.Zero(t, p.Stats().EpochBumps)
}

func TestExhaustedEpochsTakeANewProducerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		pt := p.topics.get("a").view.Load().parts[0]
		pt.producerEpoch, pt.restart = math.MaxInt16, newEpoch
		f.idErr = []error{partition.ErrTimeout, partition.ErrTimeout} // retried
		_, err = p.Send(t.Context(), value("a", 1))
		require.NoError(t, err)
		last := f.headers()[1]
		require.Equal(t, []any{int64(1002), int16(0), int32(0)}, []any{last.ProducerID, last.ProducerEpoch, last.BaseSequence})
		require.Equal(t, numbers(0, 2), f.values("a", 0))
		require.NoError(t, p.Close())
	})
}

func TestForeignEpochTakesANewProducerIDUnlessTheRecordMayBeThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		f.locked(func() { f.part("a", 0).producers[1001].epoch = 7 })
		_, err = p.Send(t.Context(), value("a", 1))
		require.NoError(t, err)
		require.Equal(t, numbers(0, 2), f.values("a", 0))

		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			return fate{replyLost: n == 3, delay: time.Millisecond}
		}
		time.AfterFunc(5*time.Millisecond, func() { f.locked(func() { f.part("a", 0).producers[1002].epoch = 9 }) })
		_, err = p.Send(t.Context(), value("a", 2))
		require.ErrorIs(t, err, ErrFenced)
		require.NoError(t, p.Close())
	})
}

func TestProducerIDIsAskedForUntilItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.idErr = []error{partition.ErrTimeout, partition.ErrTimeout}
		p := newProducer(t, f, Config{})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		broken := errors.New("broken")
		f.idErr = []error{broken}
		q := newProducer(t, f, Config{})
		_, err = q.Send(t.Context(), value("a", 0))
		require.ErrorIs(t, err, broken)
		require.NoError(t, p.Close())
		require.NoError(t, q.Close())
	})
}

// A batch that expires in flight leaves its sequence numbers unresolved. The records after it must
// be written in order and once.
func TestExpiredBatchInFlightLeavesNoGapAndNoDuplicate(t *testing.T) {
	for _, arrived := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(map[string]int{"a": 1})
			f.script = func(n int, _ *partition.ProduceRequest, b *record.Batch) fate {
				switch {
				case n == 0:
					return fate{}
				case b.ProducerEpoch == 0 && b.BaseSequence == 1: // the batch that hangs
					return fate{lost: !arrived, replyLost: arrived, delay: time.Hour}
				}
				return fate{delay: 3 * time.Second, replyLost: n%3 == 0}
			}
			p := newProducer(t, f, Config{BatchBytes: 100, MaxRequestBytes: 100, DeliveryTimeout: 20 * time.Second})
			_, err := p.Send(t.Context(), value("a", -1))
			require.NoError(t, err)
			var errs []error
			for i := range 30 {
				p.SendAsync(t.Context(), value("a", i), func(_ record.Record, err error) { errs = append(errs, err) })
				time.Sleep(time.Second)
			}
			require.NoError(t, p.Flush(t.Context()))
			want := []string{"-1"}
			failed := 0
			for i, err := range errs {
				if err == nil || arrived && failed == 0 && i == 0 {
					want = append(want, numbers(i, i+1)...)
				}
				if err != nil {
					require.ErrorIs(t, err, ErrTimeout)
					failed++
				}
			}
			require.Positive(t, failed)
			require.Less(t, failed, 30)
			got := f.values("a", 0)
			require.Equal(t, firstOnes(got), got, "no duplicate")
			require.Subset(t, got, want, "everything acknowledged is there")
			require.IsIncreasing(t, toInts(t, got))
			require.NoError(t, f.checkKept())
			require.NoError(t, p.Close())
			time.Sleep(2 * time.Hour)
		})
	}
}

func toInts(t *testing.T, s []string) (n []int) {
	t.Helper()
	for _, v := range s {
		i, err := strconv.Atoi(v)
		require.NoError(t, err)
		n = append(n, i)
	}
	return n
}
