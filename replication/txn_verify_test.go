package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A verifier is a coordinator whose responses are set by the test.
type verifier struct {
	asked  chan string // one line for each call; may be left unread
	answer func(ctx context.Context) error
	errs   func(partitions []record.TopicPartition) []error // of Verify; nil: nil for each
}

func newVerifier() *verifier {
	return &verifier{asked: make(chan string, 100), answer: func(context.Context) error { return nil }}
}

func (v *verifier) note(call string, w partition.TxnWrite, partitions []record.TopicPartition) {
	line := fmt.Sprint(call, " ", w)
	for _, tp := range partitions {
		line += fmt.Sprintf(" %s-%d", tp.Topic, tp.Partition)
	}
	v.asked <- line
}

func (v *verifier) Add(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) error {
	v.note("add", w, partitions)
	return v.answer(ctx)
}

func (v *verifier) Verify(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) ([]error, error) {
	v.note("verify", w, partitions)
	if v.errs != nil {
		return v.errs(partitions), nil
	}
	return make([]error, len(partitions)), v.answer(ctx)
}

// questions returns the requests to v since the last call of questions.
func (v *verifier) questions() (all []string) {
	for {
		select {
		case q := <-v.asked:
			all = append(all, q)
		default:
			return all
		}
	}
}

// txnRequest returns a batch of a transaction of producer 7, epoch 3. done receives its outcome.
func txnRequest(tp record.TopicPartition, version int16, seq int32, done chan partition.ProduceResult) *partition.ProduceRequest {
	var b record.Builder
	b.SetProducer(7, 3, seq)
	b.SetTransactional(true)
	b.AppendKV(time.Now().UnixMilli(), nil, []byte("v"), nil)
	bytes, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	return &partition.ProduceRequest{TopicPartition: tp, Batch: bytes, Acks: record.AcksAll, TransactionalID: "tx", TxnVersion: version,
		Done: func(r partition.ProduceResult) { done <- r }}
}

func openVerified(t *testing.T, v *verifier) *Cluster {
	t.Helper()
	return openWith(t, Config{FS: vfs.Mem(), Dir: "data", Brokers: 3, Transactions: v})
}

// openNow opens a partition, so that later batches are with its leader when Produce returns.
func openNow(t *testing.T, c *Cluster, tp record.TopicPartition) {
	t.Helper()
	_, err := c.Partition(tp)
	require.NoError(t, err)
	r, err := c.leaderReplica(tp, anyBroker)
	require.NoError(t, err)
	require.NotNil(t, r.awaitOpening())
}

func TestCoordinatorIsAskedOnceAboutAllPartitionsOfARequest(t *testing.T) {
	for _, version := range []int16{0, 2} {
		synctest.Test(t, func(t *testing.T) { askedOnce(t, version) })
	}
}

func askedOnce(t *testing.T, version int16) {
	v := newVerifier()
	c := openVerified(t, v)
	create(t, c, "t", 6)
	for p := range int32(6) {
		openNow(t, c, at("t", p))
		produce(t, c, at("t", p), "x")
	}
	require.Empty(t, v.questions(), "no transaction")
	done := make(chan partition.ProduceResult, 12)
	ask := c.GatherWrites("tx")
	for seq := range int32(2) {
		for p := range int32(6) {
			c.Produce(txnRequest(at("t", p), version, seq, done))
		}
	}
	synctest.Wait()
	require.Empty(t, v.questions(), "some are still to come")
	require.Empty(t, done)
	ask()
	for range 12 {
		require.NoError(t, (<-done).Err)
	}
	require.Equal(t, []string{fmt.Sprintf("%s {tx 7 3 %d} t-0 t-1 t-2 t-3 t-4 t-5", map[int16]string{0: "verify", 2: "add"}[version], version)}, v.questions())
	c.Produce(txnRequest(at("t", 0), version, 2, done))
	require.NoError(t, (<-done).Err)
	require.Empty(t, v.questions(), "it is open")
	require.NoError(t, c.Close())
}

// Requests for several partitions come one by one. While one verification is under way, the others
// gather. The first write opens its partition.
func TestQuestionsGatherWhileOneIsUnderWay(t *testing.T) {
	v := newVerifier()
	let := make(chan struct{})
	v.answer = func(ctx context.Context) error {
		select {
		case <-let:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c := openVerified(t, v)
	create(t, c, "t", 6)
	done := make(chan partition.ProduceResult, 6)
	c.Produce(txnRequest(at("t", 0), 2, 0, done))
	require.Equal(t, "add {tx 7 3 2} t-0", <-v.asked)
	for p := range int32(5) {
		openNow(t, c, at("t", p+1))
		c.Produce(txnRequest(at("t", p+1), 2, 0, done))
	}
	let <- struct{}{}
	require.Equal(t, "add {tx 7 3 2} t-1 t-2 t-3 t-4 t-5", <-v.asked)
	let <- struct{}{}
	for range 6 {
		require.NoError(t, (<-done).Err)
	}
}

func TestEachPartitionHasItsOwnAnswer(t *testing.T) {
	v := newVerifier()
	v.errs = func(partitions []record.TopicPartition) []error {
		errs := make([]error, len(partitions))
		errs[slices.Index(partitions, at("t", 1))] = fmt.Errorf("%w: not added", partition.ErrTxnAbortable)
		return errs
	}
	c := openVerified(t, v)
	create(t, c, "t", 2)
	ask := c.GatherWrites("tx")
	done := []chan partition.ProduceResult{make(chan partition.ProduceResult, 1), make(chan partition.ProduceResult, 1)}
	for p := range int32(2) {
		openNow(t, c, at("t", p))
		c.Produce(txnRequest(at("t", p), 0, 0, done[p]))
	}
	ask()
	require.NoError(t, (<-done[0]).Err)
	require.ErrorIs(t, (<-done[1]).Err, partition.ErrTxnAbortable)

	v.errs = func([]record.TopicPartition) []error { return nil }
	c.Produce(txnRequest(at("t", 1), 0, 0, done[1]))
	require.ErrorIs(t, (<-done[1]).Err, partition.ErrNotEnoughReplicas, "no answer is no leave")
}

// Errors after which clients of each version retry, and errors that end them. Kafka:
// ReplicaManager.handleProduceAppend.
func TestCoordinatorsErrorsAreToldAsProducersKnowThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := errors.New("not the coordinator")
		v := newVerifier()
		c := openVerified(t, v)
		create(t, c, "t", 1)
		for _, tc := range []struct {
			err    error
			v0, v2 error
		}{
			{partition.ErrInvalidProducerEpoch, partition.ErrInvalidProducerEpoch, partition.ErrInvalidProducerEpoch},
			{partition.ErrProducerIDMapping, partition.ErrProducerIDMapping, partition.ErrProducerIDMapping},
			{partition.ErrTxnAbortable, partition.ErrTxnAbortable, partition.ErrTxnAbortable},
			{partition.ErrInvalidTxnState, partition.ErrInvalidTxnState, partition.ErrInvalidTxnState},
			{partition.ErrConcurrentTransactions, partition.ErrNotEnoughReplicas, partition.ErrConcurrentTransactions},
			{partition.ErrNotLeader, partition.ErrNotEnoughReplicas, partition.ErrNotEnoughReplicas},
			{other, partition.ErrNotEnoughReplicas, partition.ErrNotEnoughReplicas},
		} {
			for version, want := range map[int16]error{0: tc.v0, 2: tc.v2} {
				v.answer = func(context.Context) error { return fmt.Errorf("told: %w", tc.err) }
				done := make(chan partition.ProduceResult, 1)
				began := time.Now()
				c.Produce(txnRequest(at("t", 0), version, 0, done))
				err := (<-done).Err
				require.ErrorIs(t, err, want, "%v to version %d", tc.err, version)
				require.ErrorContains(t, err, tc.err.Error())
				if want == partition.ErrNotEnoughReplicas {
					require.NotErrorIs(t, err, tc.err)
				}
				require.Zero(t, time.Since(began))
				synctest.Wait()
				c.txns.mu.Lock()
				require.Empty(t, c.txns.ids, "nothing is kept")
				c.txns.mu.Unlock()
			}
		}
		require.NoError(t, c.Close())
	})
}

func TestCoordinatorThatDoesNotAnswerHoldsNobodyUpForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier()
		v.answer = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c := openVerified(t, v)
		create(t, c, "t", 2)
		done := make(chan partition.ProduceResult, 1)
		began := time.Now()
		c.Produce(txnRequest(at("t", 0), 2, 0, done))
		require.ErrorIs(t, (<-done).Err, partition.ErrNotEnoughReplicas)
		require.Equal(t, txnAnswerTimeout, time.Since(began))

		c.Produce(txnRequest(at("t", 0), 2, 0, done))
		synctest.Wait()
		held := c.GatherWrites("tx")
		began = time.Now()
		require.NoError(t, c.Close())
		require.Error(t, (<-done).Err)
		require.Zero(t, time.Since(began), "closing waits for no coordinator")
		c.Produce(txnRequest(at("t", 1), 2, 0, done))
		require.ErrorIs(t, (<-done).Err, ErrClosed)
		held()
	})
}
