package producer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

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
			p := newProducer(t, f, Config{BatchBytes: 3000, MaxRequestBytes: 3000, Compression: codec})
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

// passing is a backend error that decides whether it is retriable.
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
		p := newProducer(t, f, Config{DeliveryTimeout: 10 * time.Second, BatchBytes: 200, MaxRequestBytes: 200})
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

// A final error decides, even if the producer otherwise handles the sentinel that it wraps.
func TestFinalErrorIsNotRetriedWhateverItWraps(t *testing.T) {
	for name, wraps := range map[string]error{"sequence": partition.ErrOutOfOrderSequence, "epoch": partition.ErrInvalidProducerEpoch, "leader": partition.ErrNotLeader} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"a": 1})
				f.script = func(int, *partition.ProduceRequest, *record.Batch) fate {
					return fate{err: fmt.Errorf("%w: %w", wraps, passing(false))}
				}
				p := newProducer(t, f, Config{})
				_, err := p.Send(t.Context(), value("a", 0))
				require.ErrorIs(t, err, wraps)
				require.NotErrorIs(t, err, ErrTimeout)
				require.Len(t, f.headers(), 1)
				require.NoError(t, p.Close())
			})
		})
	}
}

// refusing is a backend whose metadata of every topic have an error.
type refusing struct {
	*fake
	err error
}

func (r *refusing) Metadata(_ context.Context, topics ...string) (replication.Metadata, error) {
	md := replication.Metadata{Topics: map[string]replication.TopicMetadata{}}
	for _, name := range topics {
		md.Topics[name] = replication.TopicMetadata{Err: r.err}
	}
	return md, nil
}

func TestRefusedTopicIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{newFake(nil), fmt.Errorf("%w: %w", replication.ErrUnknownTopic, passing(false))}
		p, err := New(r, Config{AllowUnknownTopics: true})
		require.NoError(t, err)
		begun := time.Now()
		_, err = p.Send(t.Context(), value("a", 0))
		require.ErrorIs(t, err, replication.ErrUnknownTopic)
		require.NotErrorIs(t, err, ErrTimeout)
		require.Zero(t, time.Since(begun))
		require.NoError(t, p.Close())
	})
}
