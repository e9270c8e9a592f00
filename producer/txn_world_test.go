package producer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// txnWorld is a cluster. A test can make requests to its coordinators fail before or after they are
// applied.
type txnWorld struct {
	*strata.Cluster
	txns    *transaction.Coordinator
	version int16

	mu     sync.Mutex // guards the fields below
	before func(op string) error
	after  func(op string) error
	ops    []string // in the order of their arrival
}

// inTxnWorld runs a test in virtual time, at each version, with topics "a" of three partitions and
// "b" of one.
func inTxnWorld(t *testing.T, test func(t *testing.T, w *txnWorld)) {
	for name, version := range map[string]int16{"version=2": 2, "version=0": transaction.LevelZero} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, openTxnWorld(t, version)) })
		})
	}
}

func openTxnWorld(t testing.TB, level int16) *txnWorld {
	c, err := strata.Open(strata.Config{Transactions: transaction.Config{Version: level}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Partitions: 3}))
	require.NoError(t, c.CreateTopic(t.Context(), "b", topic.Config{Partitions: 1}))
	return &txnWorld{Cluster: c, txns: c.TransactionCoordinator(), version: max(level, 0)}
}

// txnBackend is a client of a txnWorld over a network.
type txnBackend struct {
	producer.TxnBackend
	w *txnWorld
}

func (b txnBackend) TxnCoordinator() producer.TxnCoordinator {
	return watchedCoordinator{b.TxnBackend.TxnCoordinator(), b.w}
}

// TxnCoordinator makes the world a backend in the process.
func (w *txnWorld) TxnCoordinator() producer.TxnCoordinator {
	return watchedCoordinator{w.Cluster.TxnCoordinator(), w}
}

// backend returns the backend of the world's producers.
func (w *txnWorld) backend(t testing.TB) producer.TxnBackend {
	if b := over(t, w.Cluster); b != producer.TxnBackend(w.Cluster) {
		return txnBackend{b, w}
	}
	return w
}

// fail sets the hooks that make requests fail: before replaces a request by an error, after
// replaces its answer. A nil hook fails none.
func (w *txnWorld) fail(before, after func(op string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

// asked returns the requests since its last call.
func (w *txnWorld) asked() (ops []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ops, w.ops = w.ops, nil
	return ops
}

// through applies a request, unless a hook of the test fails it.
func (w *txnWorld) through(op string, carryOut func() error) error {
	w.mu.Lock()
	w.ops = append(w.ops, op)
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(op); err != nil {
			return err
		}
	}
	err := carryOut()
	if after != nil {
		if err := after(op); err != nil {
			return err
		}
	}
	return err
}

type watchedCoordinator struct {
	producer.TxnCoordinator
	w *txnWorld
}

func (c watchedCoordinator) InitProducerID(ctx context.Context, id string, timeout time.Duration, before transaction.Producer) (p transaction.Producer, version int16, err error) {
	err = c.w.through("init", func() (err error) {
		p, _, err = c.TxnCoordinator.InitProducerID(ctx, id, timeout, before)
		return err
	})
	return p, c.w.version, err
}

func (c watchedCoordinator) AddPartitions(ctx context.Context, r transaction.AddRequest) error {
	return c.w.through("add", func() error { return c.TxnCoordinator.AddPartitions(ctx, r) })
}

func (c watchedCoordinator) AddOffsets(ctx context.Context, r transaction.AddRequest, id string) error {
	return c.w.through("add offsets", func() error { return c.TxnCoordinator.AddOffsets(ctx, r, id) })
}

func (c watchedCoordinator) End(ctx context.Context, r transaction.EndRequest) (p transaction.Producer, err error) {
	op := "abort"
	if r.Commit {
		op = "commit"
	}
	err = c.w.through(op, func() (err error) {
		p, err = c.TxnCoordinator.End(ctx, r)
		return err
	})
	return p, err
}

func (c watchedCoordinator) CommitTxnOffsets(ctx context.Context, r group.TxnCommitRequest) (per map[record.TopicPartition]error, err error) {
	err = c.w.through("offsets", func() (err error) {
		per, err = c.TxnCoordinator.CommitTxnOffsets(ctx, r)
		return err
	})
	return per, err
}

// newTxnProducer returns a producer with transactional id id.
func newTxnProducer(t testing.TB, w *txnWorld, id string, change ...func(*producer.Config)) *producer.Producer {
	t.Helper()
	cfg := producer.Config{TransactionalID: id}
	for _, c := range change {
		c(&cfg)
	}
	p, err := producer.New(w.backend(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// committed returns the sorted values that read_committed readers see of a topic, after all its
// transactions have ended.
func (w *txnWorld) committed(t testing.TB, name string) []string {
	t.Helper()
	synctest.Wait()
	values := []string{}
	for r, err := range consumer.Read(t.Context(), w, consumer.ReadConfig{Topic: name}) {
		require.NoError(t, err)
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	return values
}

// written returns the values written to a topic, whether committed or aborted.
func (w *txnWorld) written(t testing.TB, name string) []string {
	t.Helper()
	values := []string{}
	for r, err := range consumer.Read(t.Context(), w, consumer.ReadConfig{Topic: name, Isolation: consumer.ReadUncommitted}) {
		require.NoError(t, err)
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	return values
}

// to returns a record for a partition of topic "a".
func to(partition int32, value string) record.Record {
	return record.String("a", "", value).To(partition)
}
