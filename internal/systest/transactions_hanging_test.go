package systest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// Transactions that a broker without verification has left open, in a topic and in a group's
// offsets, are found and ended. Transactions that a coordinator knows, or that are younger, are
// not.
func TestHangingTransactionsAreFoundAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, orders, payments := vfs.Mem(), at("orders", 0), at("payments", 0)
		hung := transaction.Producer{ID: 5000, Epoch: 3}
		brokers, err := replication.Open(replication.Config{FS: disk, Dir: "data"})
		require.NoError(t, err)
		for _, name := range []string{"orders", "payments"} {
			require.NoError(t, brokers.CreateTopic(t.Context(), name, topic.Config{}))
		}
		done := make(chan error, 1)
		brokers.Produce(&partition.ProduceRequest{TopicPartition: orders, Batch: txnBatch(hung, 0, "x"), Acks: record.AcksAll, TransactionalID: "gone",
			Done: func(r partition.ProduceResult) { done <- r.Err }})
		require.NoError(t, <-done)
		groups, err := group.NewCoordinator(group.ClusterStore(brokers), group.Config{})
		require.NoError(t, err)
		r := group.TxnCommitRequest{ProducerID: hung.ID, ProducerEpoch: hung.Epoch}
		r.Group, r.Generation, r.Offsets = "readers", -1, map[record.TopicPartition]record.Committed{orders: {Offset: 7, LeaderEpoch: -1}}
		_, err = groups.CommitTxnOffsets(t.Context(), r)
		require.NoError(t, err)
		n, err := groups.OffsetsPartition(t.Context(), "readers", false)
		require.NoError(t, err)
		require.NoError(t, groups.Close())
		require.NoError(t, brokers.Close())

		cfg := strata.Config{FS: disk, Dir: "data"}
		c, err := strata.Open(cfg)
		require.NoError(t, err)
		known := &txnClient{c: c, id: "known", version: 2, seqs: map[record.TopicPartition]int32{}}
		known.p, err = c.TransactionCoordinator().InitProducerID(t.Context(), "known", 14*time.Minute, transaction.NoProducer)
		require.NoError(t, err)
		require.NoError(t, known.send(t, payments, "a"))
		require.NoError(t, c.Close())

		cfg.Transactions.MaxTimeout = 2 * time.Minute
		c, err = strata.Open(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		hanging := func() []transaction.HangingTransaction {
			t.Helper()
			found, err := c.HangingTransactions(t.Context())
			require.NoError(t, err)
			return found
		}
		time.Sleep(time.Minute)
		require.Empty(t, hanging(), "they may still be written in")
		time.Sleep(3 * time.Minute)
		want := []transaction.HangingTransaction{{Partition: at("__consumer_offsets", n), Producer: hung}, {Partition: orders, Producer: hung}}
		require.Equal(t, want, hanging())
		all, err := c.Transactions(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		d, err := c.Transaction(t.Context(), "known")
		require.NoError(t, err)
		require.Equal(t, []record.TopicPartition{payments}, d.Partitions)

		for _, not := range []transaction.HangingTransaction{
			{Partition: payments, Producer: known.p}, {Partition: orders, Producer: transaction.Producer{ID: hung.ID, Epoch: 2}}, {Partition: orders, Producer: hung, FirstOffset: 1},
		} {
			require.ErrorIs(t, c.AbortHangingTransaction(t.Context(), not), transaction.ErrNotHanging)
		}
		for _, tp := range []record.TopicPartition{payments, orders} {
			stable, end := stableEnd(t, c, tp)
			require.Equal(t, []int64{0, 1}, []int64{stable, end})
		}
		for _, h := range want {
			require.NoError(t, c.AbortHangingTransaction(t.Context(), h))
			require.ErrorIs(t, c.AbortHangingTransaction(t.Context(), h), transaction.ErrNotHanging, "again")
		}
		require.Empty(t, hanging())
		stable, end := stableEnd(t, c, orders)
		require.Equal(t, []int64{2, 2}, []int64{stable, end})
		got, unstable, err := c.Backend().FetchStableOffsets(t.Context(), "readers", []record.TopicPartition{orders})
		require.NoError(t, err)
		require.Empty(t, unstable)
		require.EqualValues(t, -1, got[orders].Offset)
		time.Sleep(15 * time.Minute) // its coordinator aborts the transaction "known"
		stable, end = stableEnd(t, c, payments)
		require.Equal(t, end, stable)
	})
}

// A coordinator that is down may have the transaction.
func TestNothingHangsWhileACoordinatorCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _ := lossy()
		cfg.Transactions.Topic = transaction.TopicConfig{Replicas: 1}
		c, err := strata.Open(cfg)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		lead, err := c.TransactionCoordinator().FindCoordinator(t.Context(), "billing")
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{lead%3 + 1}}}))
		p := &txnClient{c: c, id: "billing", version: 2, seqs: map[record.TopicPartition]int32{}}
		p.p, err = c.TransactionCoordinator().InitProducerID(t.Context(), "billing", 15*time.Minute, transaction.NoProducer)
		require.NoError(t, err)
		require.NoError(t, p.send(t, at("orders", 0), "a"))
		require.NoError(t, c.KillBroker(lead))
		time.Sleep(16 * time.Minute)
		found, err := c.HangingTransactions(t.Context())
		require.Error(t, err)
		require.Empty(t, found)
	})
}
