package strata_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

func at(topic string, p int32) record.TopicPartition {
	return record.TopicPartition{Topic: topic, Partition: p}
}

// A txnClient is a producer that writes in transactions: requests as a client sends them.
type txnClient struct {
	c       *strata.Cluster
	id      string
	version int16
	p       transaction.Producer
	seqs    map[record.TopicPartition]int32
}

func newTxnClient(t *testing.T, c *strata.Cluster, id string, version int16) *txnClient {
	t.Helper()
	p, err := c.TransactionCoordinator().InitProducerID(t.Context(), id, time.Minute, transaction.NoProducer)
	require.NoError(t, err)
	return &txnClient{c, id, version, p, map[record.TopicPartition]int32{}}
}

// txnBatch is a batch of one record.
func txnBatch(p transaction.Producer, seq int32, value string) []byte {
	var b record.Builder
	b.Reset(0)
	b.SetProducer(p.ID, p.Epoch, seq)
	b.SetTransactional(true)
	b.AppendKV(time.Now().UnixMilli(), nil, []byte(value), nil)
	batch, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	return batch
}

func (c *txnClient) send(t *testing.T, to record.TopicPartition, value string) error {
	t.Helper()
	done := make(chan error, 1)
	c.c.Backend().Produce(&partition.ProduceRequest{TopicPartition: to, Batch: txnBatch(c.p, c.seqs[to], value), Acks: record.AcksAll,
		TransactionalID: c.id, TxnVersion: c.version, Done: func(r partition.ProduceResult) { done <- r.Err }})
	err := <-done
	if err == nil {
		c.seqs[to]++
	}
	return err
}

func (c *txnClient) end(t *testing.T, commit bool) error {
	t.Helper()
	next, err := c.c.TransactionCoordinator().End(t.Context(), transaction.EndRequest{ID: c.id, Producer: c.p, Commit: commit, Version: c.version})
	if err == nil && c.version == 2 {
		c.p = next
		clear(c.seqs)
	}
	return err
}

// stableEnd returns how far ReadCommitted readers see, and the end.
func stableEnd(t *testing.T, c *strata.Cluster, of record.TopicPartition) (stable, end int64) {
	t.Helper()
	for isolation, to := range map[partition.Isolation]*int64{partition.ReadCommitted: &stable, partition.ReadUncommitted: &end} {
		got, err := c.ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{of: partition.Latest}, isolation)
		require.NoError(t, err)
		require.NoError(t, got[of].Err)
		*to = got[of].Offset
	}
	return stable, end
}

// A cluster that is opened as usual has its leaders ask the coordinator before they write, takes in
// the partitions that are written to, and has the markers written.
func TestOpenedClusterCoordinatesTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3, ReplicationFactor: 3}))
		stray := &txnClient{c, "stray", 2, transaction.Producer{ID: 77}, map[record.TopicPartition]int32{}}
		require.ErrorIs(t, stray.send(t, at("orders", 0), "x"), partition.ErrProducerIDMapping)

		p := newTxnClient(t, c, "billing", 2)
		for i := range int32(3) {
			require.NoError(t, p.send(t, at("orders", i), "a"))
		}
		d, err := c.TransactionCoordinator().Describe(t.Context(), "billing")
		require.NoError(t, err)
		require.Len(t, d.Partitions, 3)
		stable, end := stableEnd(t, c, at("orders", 0))
		require.Equal(t, []int64{0, 1}, []int64{stable, end})
		require.Equal(t, 1, c.Stats().Transactions.Ongoing)
		require.NoError(t, p.end(t, true))
		require.NoError(t, p.send(t, at("orders", 0), "b"), "after the transaction before")
		require.NoError(t, p.end(t, false))
		time.Sleep(time.Second)
		for i := range int32(3) {
			stable, end := stableEnd(t, c, at("orders", i))
			require.Equal(t, end, stable)
		}
		broker, err := c.Backend().TransactionCoordinator().FindCoordinator(t.Context(), "billing")
		require.NoError(t, err)
		for b := range int32(3) {
			_, err := c.TransactionCoordinator().On(b+1).Describe(t.Context(), "billing")
			if b+1 == broker {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, transaction.ErrNotCoordinator)
			}
		}
	})
}

// The offsets of a group are in the partition that its coordinator says.
func TestOffsetsOfAGroupAreAddedByTheirPartition(t *testing.T) {
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	p := newTxnClient(t, c, "billing", 0)
	require.NoError(t, c.TransactionCoordinator().AddOffsets(t.Context(), transaction.AddRequest{ID: "billing", Producer: p.p}, "readers"))
	d, err := c.TransactionCoordinator().Describe(t.Context(), "billing")
	require.NoError(t, err)
	n, err := c.Backend().OffsetsPartition(t.Context(), "readers", false)
	require.NoError(t, err)
	require.Equal(t, []record.TopicPartition{at("__consumer_offsets", n)}, d.Partitions)
}

// What was decided before the process ended is finished by the next one.
func TestOpenFinishesWhatWasDecided(t *testing.T) {
	disk := vfs.Mem()
	open := func() *strata.Cluster {
		c, err := strata.Open(strata.Config{FS: disk, Dir: "data", Brokers: 2, Transactions: transaction.Config{Topic: transaction.TopicConfig{Replicas: 1}}})
		require.NoError(t, err)
		return c
	}
	synctest.Test(t, func(t *testing.T) {
		c := open()
		from, err := c.TransactionCoordinator().FindCoordinator(t.Context(), "billing")
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{3 - from}, {3 - from}}}))
		p := newTxnClient(t, c, "billing", 2)
		for i := range int32(2) {
			require.NoError(t, p.send(t, at("orders", i), "a"))
		}
		c.Backend().Network().Cut(replication.NetworkPath{From: from, To: 3 - from}) // no marker gets there
		require.NoError(t, p.end(t, true))
		disk = disk.Crash(1)
		_ = c.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		c := open()
		defer func() { require.NoError(t, c.Close()) }()
		time.Sleep(time.Second)
		d, err := c.TransactionCoordinator().Describe(t.Context(), "billing")
		require.NoError(t, err)
		require.Equal(t, "CompleteCommit", d.State.String())
		for i := range int32(2) {
			stable, end := stableEnd(t, c, at("orders", i))
			require.Equal(t, []int64{2, 2}, []int64{stable, end})
		}
	})
}

// A cluster that never sees a transaction stays as it was; from the first on it has a level, which
// counts until another one is asked for.
func TestClusterKeepsItsTransactionVersion(t *testing.T) {
	disk := vfs.Mem()
	in := func(version int16, test func(c *strata.Cluster)) {
		t.Helper()
		c, err := strata.Open(strata.Config{FS: disk, Dir: "data", Transactions: transaction.Config{Version: version}})
		require.NoError(t, err)
		test(c)
		require.NoError(t, c.Close())
	}
	level := func(now, kept int16) func(*strata.Cluster) {
		return func(c *strata.Cluster) {
			t.Helper()
			require.Equal(t, now, c.TransactionCoordinator().Version())
			require.Equal(t, kept, c.Backend().TransactionVersion())
		}
	}
	in(1, func(c *strata.Cluster) {
		before := disk.Count(vfs.OpChange)
		level(1, 0)(c)
		require.Equal(t, before, disk.Count(vfs.OpChange))
	})
	in(0, level(2, 0))
	in(0, func(c *strata.Cluster) {
		_, exists := c.Backend().TopicID("__transaction_state")
		require.False(t, exists)
		newTxnClient(t, c, "billing", 2)
		level(2, 2)(c)
	})
	in(0, level(2, 2))
	in(1, level(1, 1))
	in(0, level(1, 1))
	in(transaction.LevelZero, level(0, 0))
	in(0, level(0, 0)) // as of a cluster of Kafka's before there were levels
	in(2, level(2, 2))
}
