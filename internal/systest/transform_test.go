package systest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// transforming returns a cluster with the topics "in", of three partitions, and "out", of two.
func transforming(t *testing.T) *strata.Cluster {
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.CreateTopic(t.Context(), "in", topic.Config{Partitions: 3}))
	require.NoError(t, c.CreateTopic(t.Context(), "out", topic.Config{Partitions: 2}))
	return c
}

// over returns the backend of a test's producers and consumers: c, or a client of c over a network
// in memory.
func over(t *testing.T, c *strata.Cluster) backend {
	t.Helper()
	if wired.On(t) {
		return wired.Client(t, c)
	}
	return c
}

type backend interface {
	producer.TxnBackend
	consumer.Backend
}

// fill writes numbers from first to last to "in".
func fill(t *testing.T, c *strata.Cluster, first, last int) {
	t.Helper()
	p, err := producer.New(over(t, c), producer.Config{})
	require.NoError(t, err)
	for i := first; i <= last; i++ {
		_, err := p.Send(t.Context(), record.String("in", fmt.Sprint(i), fmt.Sprint(i)).To(int32(i%3)))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
}

// member returns a consumer of group "g" and a transactional producer.
func member(t *testing.T, c *strata.Cluster, id string, change ...func(*consumer.Config)) (*consumer.Consumer, *producer.Producer) {
	t.Helper()
	cfg := consumer.Config{Group: "g", Topics: []string{"in"}}
	for _, f := range change {
		f(&cfg)
	}
	in, err := consumer.New(over(t, c), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	out, err := producer.New(over(t, c), producer.Config{TransactionalID: id})
	require.NoError(t, err)
	t.Cleanup(func() { _ = out.Close() })
	return in, out
}

// double emits a record to both partitions of "out".
func double(r record.Record, emit func(record.Record)) error {
	for part := range int32(2) {
		emit(record.Record{Topic: "out", Key: r.Key, Value: r.Value}.To(part))
	}
	return nil
}

// outputs returns how often each value is read from "out", once no transaction is open.
func outputs(t *testing.T, c *strata.Cluster) map[string]int {
	t.Helper()
	synctest.Wait()
	seen := map[string]int{}
	for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "out"}) {
		require.NoError(t, err)
		seen[string(r.Value)]++
	}
	return seen
}

func doubled(first, last int) map[string]int {
	want := map[string]int{}
	for i := first; i <= last; i++ {
		want[fmt.Sprint(i)] = 2
	}
	return want
}

// until returns a context that ends when the group has committed all of the input.
func until(t *testing.T, c *strata.Cluster, n int64) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for committedOf(t, c) < n && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return ctx
}

// committedOf returns the sum of the group's offsets.
func committedOf(t *testing.T, c *strata.Cluster) (sum int64) {
	got, err := c.Backend().FetchOffsets(context.Background(), "g", nil)
	if err != nil {
		t.Error(err)
	}
	for _, co := range got {
		sum += co.Offset
	}
	return sum
}

func TestTransformWritesOutputAndOffsetsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 1, 30)
		in, out := member(t, c, "t", func(c *consumer.Config) { c.MaxPollRecords = 4 })
		require.NoError(t, consumer.Transform(until(t, c, 30), in, out, double))
		require.Equal(t, doubled(1, 30), outputs(t, c))
		require.Greater(t, out.Stats().Commits, int64(5))
		require.NoError(t, in.Close(), "nothing is committed besides")

		fill(t, c, 31, 40)
		in, out = member(t, c, "t")
		require.NoError(t, consumer.Transform(until(t, c, 40), in, out, double))
		require.Equal(t, doubled(1, 40), outputs(t, c), "it goes on where it was")
	})
}

func TestTransformTakesFetchedRecordsForATenthOfASecondInOneTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		perRecord    time.Duration
		most         int // MaxPollRecords
		transactions int64
	}{
		"all":               {0, 0, 1},
		"a tenth of second": {100 * time.Microsecond, 0, 3}, // 1,000 records each, 500 a Poll
		"a slow function":   {time.Millisecond, 0, 6},       // one Poll each
		"a setting":         {0, 100, 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := transforming(t)
				fill(t, cluster, 1, 3000)
				in, out := member(t, cluster, "t", func(cfg *consumer.Config) { cfg.MaxPollRecords = c.most })
				require.NoError(t, consumer.Transform(until(t, cluster, 3000), in, out, func(r record.Record, emit func(record.Record)) error {
					time.Sleep(c.perRecord)
					return double(r, emit)
				}))
				require.Equal(t, c.transactions, out.Stats().Commits)
				require.Equal(t, doubled(1, 3000), outputs(t, cluster))
			})
		})
	}
}

func TestTransformThatFailsHasChangedNothingAndMayBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 1, 30)
		in, out := member(t, c, "t", func(c *consumer.Config) { c.MaxPollRecords = 7 })
		mine := errors.New("mine")
		for _, fails := range []int{3, 1, 5} {
			n := 0
			err := consumer.Transform(t.Context(), in, out, func(r record.Record, emit func(record.Record)) error {
				if n++; n > fails*3 {
					return mine
				}
				return double(r, emit)
			})
			require.Equal(t, mine, err)
		}
		require.Panics(t, func() {
			_ = consumer.Transform(t.Context(), in, out, func(r record.Record, emit func(record.Record)) error {
				_ = double(r, emit)
				panic("mine")
			})
		})
		err := consumer.Transform(t.Context(), in, out, func(_ record.Record, emit func(record.Record)) error {
			emit(record.String("nowhere", "", ""))
			return nil
		})
		require.ErrorIs(t, err, producer.ErrUnknownTopic)
		require.ErrorIs(t, err, producer.ErrAbortable)
		require.NoError(t, consumer.Transform(until(t, c, 30), in, out, double))
		require.Equal(t, doubled(1, 30), outputs(t, c))
	})
}

func TestTransformFinishesTheBatchInHandWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 1, 9)
		in, out := member(t, c, "t")
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		require.NoError(t, consumer.TransformBatches(ctx, in, out, func(ctx context.Context, b *consumer.Batch, tx *producer.Txn) error {
			cancel()
			time.Sleep(time.Second)
			require.NoError(t, ctx.Err())
			for r := range b.All() {
				seen++
				if err := double(r, func(r record.Record) { require.NoError(t, tx.Send(ctx, r)) }); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Positive(t, seen)
		require.Len(t, outputs(t, c), seen)
		require.EqualValues(t, seen, committedOf(t, c))
	})
}

func TestTransformEndsWhenAHangingFunctionHasHadItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 1, 9)
		in, out := member(t, c, "t")
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		err := consumer.TransformBatches(ctx, in, out, func(ctx context.Context, b *consumer.Batch, tx *producer.Txn) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, consumer.DefaultDrainTimeout, time.Since(began))
		require.NoError(t, consumer.Transform(until(t, c, 9), in, out, double))
		require.Equal(t, doubled(1, 9), outputs(t, c))
	})
}

// A member that exceeds MaxPollInterval loses its partitions. Its transaction is aborted, and the
// partitions' new owner processes the records.
func TestTransformOfALostPartitionIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 1, 30)
		in, out := member(t, c, "slow", func(c *consumer.Config) { c.MaxPollInterval = 10 * time.Second })
		first := true
		slow := make(chan error, 1)
		done := until(t, c, 30)
		go func() {
			slow <- consumer.TransformBatches(done, in, out, func(ctx context.Context, b *consumer.Batch, tx *producer.Txn) error {
				for r := range b.All() {
					if err := double(r, func(r record.Record) { _ = tx.Send(ctx, r) }); err != nil {
						return err
					}
				}
				if first {
					first = false
					time.Sleep(20 * time.Second)
				}
				return nil
			})
		}()
		time.Sleep(time.Second)
		other, to := member(t, c, "other")
		require.NoError(t, consumer.Transform(done, other, to, double))
		require.NoError(t, <-slow)
		require.Equal(t, doubled(1, 30), outputs(t, c))
		require.Positive(t, out.Stats().Aborts)
	})
}

// A member whose start offset is part of an open transaction waits for the transaction's end.
func TestReaderWaitsForTheOffsetOfAnOpenTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 1, 3)
		p, err := producer.New(over(t, c), producer.Config{TransactionalID: "dead", TransactionTimeout: 5 * time.Second})
		require.NoError(t, err)
		tx, err := p.Begin(t.Context())
		require.NoError(t, err)
		in0 := record.TopicPartition{Topic: "in", Partition: 0}
		require.NoError(t, tx.CommitOffsets(t.Context(), group.Metadata{Group: "g", Generation: -1}, record.Offsets{in0: 1}))

		in, err := consumer.New(over(t, c), consumer.Config{Group: "g", Topics: []string{"in"}})
		require.NoError(t, err)
		defer in.Close()
		began, read := time.Now(), map[string]time.Duration{}
		for r, err := range in.Records(t.Context()) {
			require.NoError(t, err)
			read[string(r.Value)] = time.Since(began)
			if len(read) == 3 {
				break
			}
		}
		require.Less(t, read["1"], time.Second, "the others do not wait")
		require.Less(t, read["2"], time.Second)
		require.GreaterOrEqual(t, read["3"], 5*time.Second, "the transaction is aborted when its time is over")
		require.ErrorIs(t, tx.Commit(t.Context()), producer.ErrAbortable)
		require.NoError(t, p.Close())
	})
}

func TestSuccessorOfATransformerNeedNotWaitForItsTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 1, 3)
		dead, err := producer.New(over(t, c), producer.Config{TransactionalID: "t"})
		require.NoError(t, err)
		tx, err := dead.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Send(t.Context(), record.String("out", "", "dead")))
		all := record.Offsets{}
		for part := range int32(3) {
			all[record.TopicPartition{Topic: "in", Partition: part}] = 1
		}
		require.NoError(t, tx.CommitOffsets(t.Context(), group.Metadata{Group: "g", Generation: -1}, all))
		require.NoError(t, dead.Flush(t.Context()))
		began := time.Now()
		in, out := member(t, c, "t")
		require.NoError(t, consumer.Transform(until(t, c, 3), in, out, double))
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, doubled(1, 3), outputs(t, c))
		require.ErrorIs(t, tx.Commit(t.Context()), producer.ErrFenced)
		require.NoError(t, dead.Close())
	})
}

func TestTransformNeedsAGroupThatReadsWhatIsCommitted(t *testing.T) {
	c := transforming(t)
	out, err := producer.New(over(t, c), producer.Config{TransactionalID: "t"})
	require.NoError(t, err)
	defer out.Close()
	plain, err := producer.New(over(t, c), producer.Config{})
	require.NoError(t, err)
	defer plain.Close()
	never := func(record.Record, func(record.Record)) error { panic("called") }
	for name, tc := range map[string]struct {
		cfg  consumer.Config
		want string
	}{
		"no group":  {consumer.Config{Topics: []string{"in"}}, consumer.ErrNoGroup.Error()},
		"isolation": {consumer.Config{Group: "g", Topics: []string{"in"}, Isolation: consumer.ReadUncommitted}, "Isolation"},
		"commit":    {consumer.Config{Group: "g", Topics: []string{"in"}, Commit: consumer.CommitBeforeDelivery}, "Commit"},
	} {
		in, err := consumer.New(over(t, c), tc.cfg)
		require.NoError(t, err)
		require.ErrorContains(t, consumer.Transform(t.Context(), in, out, never), tc.want, name)
		require.NoError(t, in.Close())
	}
	in, err := consumer.New(over(t, c), consumer.Config{Group: "g", Topics: []string{"in"}})
	require.NoError(t, err)
	require.ErrorIs(t, consumer.Transform(t.Context(), in, plain, never), producer.ErrNotTransactional)
	require.NoError(t, in.Close())
	require.ErrorIs(t, consumer.Transform(t.Context(), in, out, never), consumer.ErrClosed)
}

// lateCommits is a backend that delays commits outside of transactions.
type lateCommits struct {
	backend
	late time.Duration
	sent atomic.Int32
}

func (b *lateCommits) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	b.sent.Add(1)
	time.Sleep(b.late)
	return b.backend.CommitOffsets(ctx, req)
}

// A commit outside of the transactions could reach the group after one with a higher offset, and
// undo it. This includes commits past records of aborted transactions, which have no output.
func TestTransformCommitsNothingOutsideOfItsTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		w, err := producer.New(over(t, c), producer.Config{TransactionalID: "w"})
		require.NoError(t, err)
		defer w.Close()
		write := func(outcome error) {
			err := w.Transact(t.Context(), func(tx *producer.Txn) error {
				require.NoError(t, tx.Send(t.Context(), record.String("in", "", "1").To(0)))
				require.NoError(t, w.Flush(t.Context()))
				return outcome
			})
			require.ErrorIs(t, err, outcome)
		}
		write(nil)
		out, err := producer.New(over(t, c), producer.Config{TransactionalID: "t"})
		require.NoError(t, err)
		defer out.Close()
		b := &lateCommits{backend: over(t, c), late: time.Second}
		in, err := consumer.New(b, consumer.Config{Group: "g", Topics: []string{"in"}})
		require.NoError(t, err)
		defer in.Close()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute+500*time.Millisecond) // the consumer may commit every second
		defer stop()
		go func() {
			time.Sleep(10 * time.Second)
			write(errors.ErrUnsupported)
		}()
		require.NoError(t, consumer.Transform(ctx, in, out, double))
		require.Zero(t, b.sent.Load())
		require.EqualValues(t, 2, committedOf(t, c), "behind the marker of what was transformed")
		require.NoError(t, in.Close())
		require.EqualValues(t, 4, committedOf(t, c), "behind what was aborted, too")
		require.Equal(t, doubled(1, 1), outputs(t, c))
	})
}

// A member has polled before Transform. Its pending commit must not reach the group after
// Transform's commits.
func TestTransformWaitsForTheCommitThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := transforming(t)
		fill(t, c, 3, 3) // partition 0
		b := &lateCommits{backend: over(t, c), late: 3 * time.Second}
		out, err := producer.New(over(t, c), producer.Config{TransactionalID: "t"})
		require.NoError(t, err)
		defer out.Close()
		in, err := consumer.New(b, consumer.Config{Group: "g", Topics: []string{"in"}, CommitInterval: 10 * time.Second})
		require.NoError(t, err)
		defer in.Close()
		for range in.Records(t.Context()) {
			break
		}
		// A record counts as processed when the next one is requested.
		for r, err := range in.Records(t.Context()) {
			require.NoError(t, err)
			if r.Offset == 0 {
				fill(t, c, 6, 6)
				continue
			}
			for b.sent.Load() == 0 {
				time.Sleep(time.Second)
			}
			break // the second one is delivered again
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*b.late)
		defer stop()
		require.NoError(t, consumer.Transform(ctx, in, out, double))
		require.EqualValues(t, 2, committedOf(t, c))
		require.Equal(t, map[string]int{"6": 2}, outputs(t, c))
	})
}

// Checklist row CL1.
func TestTransformRejectsAProducerOfAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transforming(t), transforming(t)
		fill(t, a, 1, 3)
		in, own := member(t, a, "x")
		other, err := producer.New(over(t, b), producer.Config{TransactionalID: "x"})
		require.NoError(t, err)
		defer other.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		calls := 0
		count := func(record.Record, func(record.Record)) error {
			if calls++; calls == 3 {
				cancel()
			}
			return nil
		}
		err = consumer.Transform(ctx, in, other, count)
		var refused *topic.ConfigError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, a.ClusterID())
		require.ErrorContains(t, err, b.ClusterID())
		require.Zero(t, time.Since(began))
		require.Zero(t, calls)

		require.NoError(t, consumer.Transform(ctx, in, own, count), "the consumer is as before")
		require.Equal(t, 3, calls)
	})
}
