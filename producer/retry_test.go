package producer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// sendNumbers sends n records asynchronously and returns their errors once all are settled.
func sendNumbers(t *testing.T, p *Producer, name string, n int) []error {
	t.Helper()
	errs := make([]error, n)
	for i := range n {
		p.SendAsync(t.Context(), value(name, i), func(_ record.Record, err error) { errs[i] = err })
	}
	require.NoError(t, p.Flush(t.Context()))
	return errs
}

// unreliable answers after a while, and loses replies and requests with the given chances of 100.
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
		p := newProducer(t, f, Config{BatchBytes: 2000, MaxBufferedBytes: 50_000}) // little memory: buffers are used again
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
	synctest.Test(t, func(t *testing.T) { // the twin of TestLostRepliesLeadToNoDuplicateNoGapAndNoReordering
		f := newFake(map[string]int{"a": 1})
		f.script = unreliable(1, 20, 0)
		p := newProducer(t, f, Config{BatchBytes: 2000, NoIdempotence: true})
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

// firstOnes drops all but the first of equal strings.
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

func TestTopicThatAppearsLaterIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		p := newProducer(t, f, Config{AllowUnknownTopics: true})
		start := time.Now()
		time.AfterFunc(time.Second, func() { f.grow("a", 1) })
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start), "told, not polled")

		_, err = p.Send(t.Context(), value("never", 0))
		require.ErrorIs(t, err, ErrTimeout)
		require.ErrorIs(t, err, ErrUnknownTopic)
		require.Equal(t, 61*time.Second, time.Since(start))
		require.NoError(t, p.Close())

		p = newProducer(t, f, Config{MaxBlock: NoWait, AllowUnknownTopics: true})
		_, err = p.Send(t.Context(), value("never", 0))
		require.ErrorIs(t, err, ErrUnknownTopic)
		require.NotErrorIs(t, err, ErrTimeout)
		require.NoError(t, p.Close())
	})
}

func TestNewPartitionsAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{Partitioner: topic.RoundRobin(), AllowUnknownTopics: true})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { f.grow("a", 3) })
		acks, err := p.Send(t.Context(), value("a", 1).To(2)) // waits for it
		require.NoError(t, err)
		require.Equal(t, int32(2), acks[0].Partition)
		for i := range 6 {
			_, err := p.Send(t.Context(), value("a", i))
			require.NoError(t, err)
		}
		require.Len(t, f.values("a", 1), 2)
		require.Len(t, f.values("a", 2), 3)
		require.NoError(t, p.Close())
	})
}

func TestLeaderIsFoundAgainAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{RetryBackoff: time.Hour, DeliveryTimeout: 3 * time.Hour})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)

		f.locked(func() { f.part("a", 0).leader = -1 }) // without telling
		start := time.Now()
		time.AfterFunc(time.Second, func() { f.change(func() { f.part("a", 0).leader, f.part("a", 0).epoch = 2, 1 }) })
		_, err = p.Send(t.Context(), value("a", 1))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start), "a new leader ends the pause")

		f.change(func() { f.part("a", 0).leader = -1 })
		synctest.Wait()
		requests := len(f.headers())
		time.AfterFunc(time.Second, func() { f.change(func() { f.part("a", 0).leader = 1 }) })
		_, err = p.Send(t.Context(), value("a", 2))
		require.NoError(t, err)
		require.Len(t, f.headers(), requests+1, "nobody is asked while there is no leader")
		require.Equal(t, numbers(0, 3), f.values("a", 0))
		require.NoError(t, p.Close())
	})
}

func TestLeaderChangesUnderLoadKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		rnd := rand.New(rand.NewPCG(3, 4))
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			ft := fate{delay: time.Duration(1+rnd.IntN(10)) * time.Millisecond, replyLost: rnd.IntN(10) == 0}
			if rnd.IntN(10) == 0 {
				ft.err = partition.ErrNotLeader
				go f.change(func() { f.part("a", 0).epoch++ })
			}
			return ft
		}
		p := newProducer(t, f, Config{BatchBytes: 400})
		for i, err := range sendNumbers(t, p, "a", 5000) {
			require.NoError(t, err, i)
		}
		require.Equal(t, numbers(0, 5000), f.values("a", 0))
		require.NoError(t, p.Close())
	})
}

func TestBatchTooLargeForTheTopicIsSplit(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.LZ4} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(map[string]int{"a": 1})
			f.script = func(_ int, _ *partition.ProduceRequest, b *record.Batch) fate {
				if b.Size() > 300 {
					return fate{err: partition.ErrRecordTooLarge, delay: time.Millisecond}
				}
				return fate{delay: time.Millisecond}
			}
			p := newProducer(t, f, Config{BatchBytes: 3000, Compression: codec})
			errs := make([]error, 1000)
			var acks []Ack
			for i := range 1000 {
				r := value("a", i)
				if i == 500 {
					r.Value = randomBytes(1000)
				}
				p.SendAsync(t.Context(), r, func(_ record.Record, err error) { errs[i] = err })
				if i == 700 {
					var err error
					acks, err = p.Send(t.Context(), value("a", -1), value("a", -2))
					require.NoError(t, err)
				}
			}
			require.NoError(t, p.Flush(t.Context()))
			for i, err := range errs {
				if i == 500 {
					require.ErrorIs(t, err, ErrMessageTooLarge)
				} else {
					require.NoError(t, err, i)
				}
			}
			want := append(numbers(0, 500), numbers(501, 701)...)
			require.Equal(t, []int64{700, 701}, []int64{acks[0].Offset, acks[1].Offset})
			want = append(want, "-1", "-2")
			require.Equal(t, append(want, numbers(701, 1000)...), f.values("a", 0))
			require.Greater(t, p.Stats().Splits, int64(3))
			require.Zero(t, p.Stats().BufferedBytes)
			require.NoError(t, p.Close())
		})
	}
}

func randomBytes(n int) []byte {
	rnd := rand.New(rand.NewPCG(5, 6))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return p
}

func TestRecordsToBlameGetTheirOwnErrors(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
		if n > 0 {
			return fate{}
		}
		return fate{err: partition.ErrInvalidRecord, result: func(r *partition.ProduceResult) {
			r.Records = []partition.RecordError{{Index: 1, Reason: "no key"}}
		}}
	}
	p := newProducer(t, f, Config{})
	acks, err := p.Send(t.Context(), value("a", 0), value("a", 1), value("a", 2))
	require.ErrorIs(t, err, ErrInvalidRecord)
	var re *RecordError
	require.ErrorAs(t, acks[1].Err, &re)
	require.Equal(t, "no key", re.Reason)
	require.ErrorIs(t, acks[1].Err, ErrInvalidRecord)
	require.ErrorAs(t, acks[2].Err, &re)
	require.Equal(t, "another record of the batch was refused", re.Reason)

	_, err = p.Send(t.Context(), value("a", 3))
	require.NoError(t, err)
	require.Equal(t, int32(0), f.headers()[1].BaseSequence, "the numbers of the refused batch are used again")
	require.Zero(t, p.Stats().EpochBumps)
}

func TestErrorOfTheDiskIsFinal(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	full := errors.New("disk full")
	f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
		if n == 1 {
			return fate{err: full}
		}
		return fate{}
	}
	p := newProducer(t, f, Config{})
	_, err := p.Send(t.Context(), value("a", 0))
	require.NoError(t, err)
	_, err = p.Send(t.Context(), value("a", 1))
	require.ErrorIs(t, err, full)
	require.Contains(t, err.Error(), "a-0")
	_, err = p.Send(t.Context(), value("a", 2))
	require.NoError(t, err, "it may be in the log or not: the next goes with a new epoch")
	require.Equal(t, int16(1), f.headers()[2].ProducerEpoch)
	require.Equal(t, []string{"0", "2"}, f.values("a", 0))
}

// passing is an error of a backend that decides for itself.
type passing bool

func (passing) Error() string     { return "passing" }
func (p passing) Retriable() bool { return bool(p) }

func TestBackendDecidesWhatIsRetriable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			switch n {
			case 0:
				return fate{err: fmt.Errorf("x: %w", passing(true))}
			case 2:
				return fate{err: fmt.Errorf("%w: %w", partition.ErrNotLeader, passing(false))}
			}
			return fate{}
		}
		p := newProducer(t, f, Config{})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		_, err = p.Send(t.Context(), value("a", 1))
		require.ErrorIs(t, err, partition.ErrNotLeader)
		require.NoError(t, p.Close())
	})
}

func TestClosedClusterFailsAtOnce(t *testing.T) {
	f := newFake(map[string]int{"a": 1})
	f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{err: replication.ErrClosed} }
	p := newProducer(t, f, Config{})
	_, err := p.Send(t.Context(), value("a", 0))
	require.ErrorIs(t, err, replication.ErrClosed)
}

func TestExpiryEndsBatchesThatWereNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			if n < 1 {
				return fate{delay: time.Hour} // hangs
			}
			return fate{}
		}
		p := newProducer(t, f, Config{DeliveryTimeout: 10 * time.Second, BatchBytes: 200})
		var errs []error
		for i := range 100 {
			p.SendAsync(t.Context(), value("a", i), func(_ record.Record, err error) { errs = append(errs, err) })
		}
		start := time.Now()
		require.NoError(t, p.Flush(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(start))
		require.Len(t, errs, 100)
		require.ErrorIs(t, errs[0], ErrTimeout)
		require.Contains(t, errs[0].Error(), "may be in the log")
		require.Contains(t, errs[99].Error(), "not sent")
		_, err := p.Send(t.Context(), value("a", 100))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		time.Sleep(2 * time.Hour)
	})
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
