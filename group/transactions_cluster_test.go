package group

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Three brokers have all replicas. A pending offset survives the kill of the coordinator, and so
// does its outcome. The next coordinator, and its partition, have the producers. Then all brokers
// lose power.
func TestPendingOffsetsMoveWithTheCoordinatorAndSurvivePowerLoss(t *testing.T) {
	t0, t1 := record.TopicPartition{Topic: "t"}, record.TopicPartition{Topic: "t", Partition: 1}
	fs := vfs.Mem()
	var p int32
	synctest.Test(t, func(t *testing.T) {
		brokers, err := replication.Open(replication.Config{FS: fs, Dir: "data", Brokers: 3})
		require.NoError(t, err)
		defer func() { _ = brokers.Close() }()
		require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 2}))
		c, err := NewCoordinator(ClusterStore(brokers), Config{})
		require.NoError(t, err)
		defer checkEvents(t, c)()
		defer c.Close()
		commit(t, c, commitOf("g", record.Offsets{t0: 1, t1: 1}))
		p, err = c.OffsetsPartition(ctx, "g", false)
		require.NoError(t, err)
		stable := func() (stable, end int64) {
			r, err := brokers.Partition(record.TopicPartition{Topic: offsets.Topic, Partition: p})
			require.NoError(t, err)
			return r.LastStableOffset(), r.LogEndOffset()
		}
		kill := func() {
			broker, err := c.FindCoordinator(ctx, "g")
			require.NoError(t, err)
			require.NoError(t, brokers.KillBroker(broker))
			require.NoError(t, brokers.StartBroker(ctx, broker))
		}
		for range 2 { // two batches of one transaction
			_, err = c.CommitTxnOffsets(ctx, inTxn(7, 3, "g", map[record.TopicPartition]int64{t0: 2, t1: 2}))
			require.NoError(t, err)
		}
		commit(t, c, commitOf("g", record.Offsets{t1: 3}))
		at, end := stable()
		require.Equal(t, []int64{2, 7}, []int64{at, end})
		kill()
		_, unstable, err := c.FetchStableOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.Len(t, unstable, 2)
		_, err = c.CommitTxnOffsets(ctx, inTxn(7, 2, "g", map[record.TopicPartition]int64{t0: 4}))
		require.ErrorIs(t, err, partition.ErrInvalidProducerEpoch)
		require.NoError(t, c.EndTransaction(ctx, p, partition.TxnMarker{ProducerID: 7, ProducerEpoch: 4, CoordinatorEpoch: 1, Commit: true, Version: 2}))
		at, end = stable()
		require.Equal(t, end, at, "nothing is open")
		kill()
		require.EqualValues(t, 2, committed(t, c, "g", t0))
		require.EqualValues(t, 3, committed(t, c, "g", t1), "it stood behind the pending one")
		_, err = c.CommitTxnOffsets(ctx, inTxn(7, 4, "g", map[record.TopicPartition]int64{t0: 5}))
		require.NoError(t, err)
		failures := c.Stats().AppendFailures
		require.ErrorIs(t, c.EndTransaction(ctx, p, partition.TxnMarker{ProducerID: 7, ProducerEpoch: 4, CoordinatorEpoch: 1, Version: 2}), partition.ErrInvalidProducerEpoch,
			"the marker of the transaction before")
		require.Equal(t, failures, c.Stats().AppendFailures, "the partition has not seen it")
		fs = fs.Crash(1)
	})
	synctest.Test(t, func(t *testing.T) {
		brokers, err := replication.Open(replication.Config{FS: fs, Dir: "data", Brokers: 3})
		require.NoError(t, err)
		defer func() { _ = brokers.Close() }()
		c, err := NewCoordinator(ClusterStore(brokers), Config{})
		require.NoError(t, err)
		defer checkEvents(t, c)()
		defer c.Close()
		got, unstable, err := c.FetchStableOffsets(ctx, "g", []record.TopicPartition{t0, t1})
		require.NoError(t, err)
		require.EqualValues(t, 3, got[t1].Offset)
		require.ErrorIs(t, unstable[t0], ErrUnstableOffsetCommit)
		require.EqualValues(t, 2, committed(t, c, "g", t0))
		require.NoError(t, c.EndTransaction(ctx, p, partition.TxnMarker{ProducerID: 7, ProducerEpoch: 5, CoordinatorEpoch: 1, Version: 2}))
		require.EqualValues(t, 2, committed(t, c, "g", t0), "aborted")
		got, unstable, err = c.FetchStableOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.Empty(t, unstable)
	})
}

// The brokers write the markers of the transaction coordinator. Markers for the offsets topic go
// to the group coordinators, which apply them at once.
func TestMarkersForTheOffsetsTopicAreWrittenByItsCoordinator(t *testing.T) {
	withCluster(t, vfs.Mem(), func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		t0 := record.TopicPartition{Topic: "t"}
		_, err := c.CommitTxnOffsets(ctx, inTxn(7, 3, "g", map[record.TopicPartition]int64{t0: 2}))
		require.NoError(t, err)
		p, err := c.OffsetsPartition(ctx, "g", false)
		require.NoError(t, err)
		info, err := brokers.Topic(ctx, offsets.Topic)
		require.NoError(t, err)
		broker, err := c.FindCoordinator(ctx, "g")
		require.NoError(t, err)
		mark := func(epoch int16) error {
			m := replication.TxnMarker{Partition: record.TopicPartition{Topic: offsets.Topic, Partition: p}, TopicID: info.ID,
				TxnMarker: partition.TxnMarker{ProducerID: 7, ProducerEpoch: epoch, Commit: true}}
			done := make(chan error, 1)
			brokers.WriteTxnMarkers(replication.NetworkPath{From: broker, To: broker}, []replication.TxnMarker{m}, nil, func(_ int, err error) { done <- err })
			return <-done
		}
		require.ErrorIs(t, mark(2), partition.ErrInvalidProducerEpoch)
		require.NoError(t, mark(3))
		require.EqualValues(t, 2, committed(t, c, "g", t0))
		require.NoError(t, c.Close())
		require.NoError(t, mark(3), "there are no groups that would have to know")
	})
}

// asker is a transaction coordinator whose answers come from the test.
type asker struct{ asked chan chan error }

func (a asker) Add(context.Context, partition.TxnWrite, []record.TopicPartition) error {
	answer := make(chan error)
	a.asked <- answer
	return <-answer
}

func (a asker) Verify(context.Context, partition.TxnWrite, []record.TopicPartition) ([]error, error) {
	return nil, errors.ErrUnsupported
}

// The first commit of a transaction of version 2 may be verified before a late marker of the
// previous transaction is written. That marker does not concern the new transaction.
func TestLateMarkerOfVersion2LeavesTheNextTransactionsOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asker{make(chan chan error, 1)}
		brokers, err := replication.Open(replication.Config{Transactions: a})
		require.NoError(t, err)
		defer brokers.Close()
		require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{}))
		c, err := NewCoordinator(ClusterStore(brokers), Config{})
		require.NoError(t, err)
		defer checkEvents(t, c)()
		defer c.Close()
		commit := func(epoch int16) chan error {
			r := inTxn(7, epoch, "g", map[record.TopicPartition]int64{{Topic: "t"}: int64(epoch)})
			r.TransactionalID, r.TxnVersion = "tx", 2
			done := make(chan error, 1)
			go func() {
				_, err := c.CommitTxnOffsets(ctx, r)
				done <- err
			}()
			return done
		}
		first := commit(3)
		(<-a.asked) <- nil
		require.NoError(t, <-first)
		p, err := c.OffsetsPartition(ctx, "g", false)
		require.NoError(t, err)
		end := func() error {
			return c.EndTransaction(ctx, p, partition.TxnMarker{ProducerID: 7, ProducerEpoch: 4, CoordinatorEpoch: 1, Commit: true, Version: 2})
		}
		require.NoError(t, end())
		next := commit(4)
		answer := <-a.asked
		require.NoError(t, end(), "again")
		answer <- nil
		require.NoError(t, <-next)
		require.Zero(t, c.Stats().AppendFailures)
	})
}
