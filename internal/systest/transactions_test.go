package systest

import (
	"errors"
	"fmt"
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

func at(topic string, p int32) record.TopicPartition {
	return record.TopicPartition{Topic: topic, Partition: p}
}

// A txnClient is a transactional producer that sends requests as a client does.
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

// txnBatch returns a batch of one record.
func txnBatch(p transaction.Producer, seq int32, value string) []byte {
	var b record.Builder
	b.Reset(0)
	b.SetProducer(p.ID, p.Epoch, seq)
	b.SetTransactional(true)
	b.AppendKV(time.Now().UnixMilli(), []byte(value), []byte(value), nil)
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

// stableEnd returns the last stable offset and the end offset.
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

// Leaders of a cluster that strata.Open opened check a transaction with its coordinator before
// they write. The coordinator adds the written partitions, and writes the markers.
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

// AddOffsets adds the offsets partition that coordinates the group.
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

// The next process completes transactions that were decided before the last one ended.
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
		// No marker gets there.
		c.Backend().Network().Cut(replication.NetworkPath{From: from, To: 3 - from})
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

// A cluster without transactions has no level in its metadata. The first transaction sets one,
// which stays until the configuration has another.
func TestClusterKeepsItsTransactionVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			synctest.Wait() // until the cluster has been set up in the background
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
		in(0, level(0, 0)) // as in a cluster of Kafka's from before transaction.version
		in(2, level(2, 2))
	})
}

func (c *txnClient) commitOffsets(t *testing.T, g string, offsets map[record.TopicPartition]int64) error {
	t.Helper()
	r := group.TxnCommitRequest{TransactionalID: c.id, TxnVersion: c.version, ProducerID: c.p.ID, ProducerEpoch: c.p.Epoch}
	r.Group, r.Generation, r.Offsets = g, -1, map[record.TopicPartition]record.Committed{}
	for tp, o := range offsets {
		r.Offsets[tp] = record.Committed{Offset: o, LeaderEpoch: -1}
	}
	errs, err := c.c.Backend().CommitTxnOffsets(t.Context(), r)
	for _, e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// A group's offsets partition is part of the transaction that commits its offsets. The commit adds
// it, or in version 0 the client's request. A late commit is rejected, and does not affect the
// group.
func TestOffsetsAreCommittedInTheirTransactionOnly(t *testing.T) {
	for _, version := range []int16{0, 2} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := strata.Open(strata.Config{})
				require.NoError(t, err)
				defer func() { require.NoError(t, c.Close()) }()
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
				orders := at("orders", 0)
				committed := func() int64 {
					got, unstable, err := c.Backend().FetchStableOffsets(t.Context(), "readers", []record.TopicPartition{orders})
					require.NoError(t, err)
					require.Empty(t, unstable)
					return got[orders].Offset
				}
				begin := func(p *txnClient) {
					if version == 0 {
						require.NoError(t, c.TransactionCoordinator().AddOffsets(t.Context(), transaction.AddRequest{ID: p.id, Producer: p.p}, "readers"))
					}
				}
				p := newTxnClient(t, c, "billing", version)
				if version == 0 {
					require.ErrorIs(t, p.commitOffsets(t, "readers", map[record.TopicPartition]int64{orders: 3}), partition.ErrTxnAbortable)
				}
				for i := range int64(5) {
					before, late := committed(), *p
					begin(p)
					require.NoError(t, p.commitOffsets(t, "readers", map[record.TopicPartition]int64{orders: 10 + i}))
					require.NoError(t, p.commitOffsets(t, "readers", map[record.TopicPartition]int64{orders: 20 + i}))
					commit := i%2 == 0
					require.NoError(t, p.end(t, commit))
					time.Sleep(time.Second)
					require.Equal(t, map[bool]int64{true: 20 + i, false: before}[commit], committed())
					err := late.commitOffsets(t, "readers", map[record.TopicPartition]int64{orders: 99})
					require.ErrorIs(t, err, map[int16]error{0: partition.ErrTxnAbortable, 2: partition.ErrInvalidProducerEpoch}[version])
				}
				require.ErrorIs(t, (&txnClient{c, "stray", version, transaction.Producer{ID: 99}, nil}).commitOffsets(t, "readers", map[record.TopicPartition]int64{orders: 3}),
					partition.ErrProducerIDMapping)
				require.Zero(t, c.Stats().Groups.AppendFailures)
			})
		})
	}
}

// The next transaction may begin before the last one's marker is written everywhere. Its first
// commit waits for the marker.
func TestOffsetsOfTheNextTransactionWaitForTheLastMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		c, err := strata.Open(strata.Config{FS: disk, Dir: "data"})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		p := newTxnClient(t, c, "billing", 2)
		for i := range int64(20) {
			require.NoError(t, p.commitOffsets(t, "readers", map[record.TopicPartition]int64{at("orders", 0): i}))
			if i == 0 {
				disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: 7 * time.Millisecond})
			}
			require.NoError(t, p.end(t, true))
		}
		time.Sleep(time.Second)
		got, err := c.Backend().FetchOffsets(t.Context(), "readers", nil)
		require.NoError(t, err)
		require.EqualValues(t, 19, got[at("orders", 0)].Offset)
		require.Zero(t, c.Stats().Groups.AppendFailures)
	})
}
