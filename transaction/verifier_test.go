package transaction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The first write of a client of version 2 adds its partition. The write of an older client is
// accepted if the client has added the partition. A late write is rejected, and no transaction
// stays open.
func TestFirstWriteOfATransactionIsItsCoordinatorsAffair(t *testing.T) {
	for _, version := range []int16{0, 2} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { firstWrites(t, version) })
		})
	}
}

func firstWrites(t *testing.T, version int16) {
	ctx := t.Context()
	var v Verifier
	cluster, err := replication.Open(replication.Config{Brokers: 3, Transactions: &v})
	require.NoError(t, err)
	require.NoError(t, cluster.CreateTopic(ctx, "a", topic.Config{Partitions: 2, ReplicationFactor: 3}))
	c, err := NewCoordinator(cluster, Config{Version: level(version)})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, c.Close())
		require.NoError(t, cluster.Close())
	}()
	write := func(id string, p Producer, to tp, seq int32) error {
		done := make(chan partition.ProduceResult, 1)
		cluster.Produce(&partition.ProduceRequest{TopicPartition: to, Batch: txnBatch(t, p, seq), TransactionalID: id, TxnVersion: version,
			Acks: record.AcksAll, Done: func(r partition.ProduceResult) { done <- r }})
		return (<-done).Err
	}
	stable := func() {
		t.Helper()
		synctest.Wait()
		for _, tp := range []tp{a0, a1} {
			p, err := cluster.Partition(tp)
			require.NoError(t, err)
			require.Equal(t, p.HighWatermark(), p.LastStableOffset())
		}
	}

	p, err := c.InitProducerID(ctx, "x", time.Minute, NoProducer)
	require.NoError(t, err)
	require.ErrorIs(t, write("x", p, a0, 0), partition.ErrNotEnoughReplicas, "no coordinator yet")
	v.Use(c)
	if version < 2 {
		require.ErrorIs(t, write("x", p, a0, 0), partition.ErrTxnAbortable, "it was not added")
		require.NoError(t, c.AddPartitions(ctx, AddRequest{ID: "x", Producer: p, Partitions: []tp{a0, a1}}))
	}
	for seq := range int32(3) {
		require.NoError(t, write("x", p, a0, seq))
		require.NoError(t, write("x", p, a1, seq))
	}
	next, err := c.End(ctx, EndRequest{ID: "x", Producer: p, Commit: true, Version: version})
	require.NoError(t, err)
	stable()
	late := partition.ErrTxnAbortable
	if version == 2 {
		late = partition.ErrInvalidProducerEpoch
	}
	require.ErrorIs(t, write("x", p, a0, 3), late, "it is over")
	stable()

	stranger := Producer{ID: p.ID + 1000}
	require.ErrorIs(t, write("x", stranger, a0, 0), partition.ErrProducerIDMapping)
	require.ErrorIs(t, write("nobody's", p, a0, 3), partition.ErrProducerIDMapping)
	require.ErrorIs(t, write(strings.Repeat("x", 40_000), p, a0, 3), partition.ErrProducerIDMapping)
	again, err := c.InitProducerID(ctx, "x", time.Minute, NoProducer)
	require.NoError(t, err)
	if version == 2 {
		p = next
	}
	require.ErrorIs(t, write("x", p, a0, 3*int32(1-version/2)), partition.ErrInvalidProducerEpoch, "another has the id")
	if version < 2 {
		require.NoError(t, c.AddPartitions(ctx, AddRequest{ID: "x", Producer: again, Partitions: []tp{a0}}))
	}
	require.NoError(t, write("x", again, a0, 0))
	time.Sleep(2 * time.Minute) // its producer has died
	stable()
	require.ErrorIs(t, write("x", again, a0, 1), partition.ErrInvalidProducerEpoch)
	stable()
}

// The first write of the next transaction comes directly behind the end of the one before, whose
// markers are still being written. The write waits for them, and is accepted after the record that
// they lead to. If they take too long, the write fails with ErrConcurrentTransactions.
func TestWriteWaitsALittleForTheTransactionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Verifier
		cluster, err := replication.Open(replication.Config{Transactions: &v})
		require.NoError(t, err)
		w := &world{T: t, brokers: &tappedBrokers{Cluster: cluster}, disks: make([]*vfs.MemFS, 1)}
		w.create("a")
		w.start()
		v.Use(w.c)
		defer func() {
			require.NoError(t, w.c.Close())
			require.NoError(t, cluster.Close())
		}()
		p := w.init("x")
		write := func() error {
			done := make(chan partition.ProduceResult, 1)
			cluster.Produce(&partition.ProduceRequest{TopicPartition: a0, Batch: txnBatch(t, p, 0), TransactionalID: "x", TxnVersion: 2,
				Acks: record.AcksAll, Done: func(r partition.ProduceResult) { done <- r }})
			return (<-done).Err
		}
		require.NoError(t, write())
		began := time.Now()
		var held time.Duration
		w.brokers.onMarkers(func(replication.NetworkPath, replication.TxnMarker) error {
			if time.Since(began) < held {
				return replication.ErrClosed
			}
			return nil
		})

		held = 50 * time.Millisecond
		p, err = w.c.End(t.Context(), EndRequest{ID: "x", Producer: p, Commit: true, Version: 2})
		require.NoError(t, err)
		appends := w.c.runtime.Stats().Appends
		require.NoError(t, write())
		require.GreaterOrEqual(t, time.Since(began), held)
		require.Less(t, time.Since(began), endWait)
		require.Equal(t, appends+1, w.c.runtime.Stats().Appends, "the end of one and the beginning of the next")

		began, held = time.Now(), time.Second
		p, err = w.c.End(t.Context(), EndRequest{ID: "x", Producer: p, Commit: true, Version: 2})
		require.NoError(t, err)
		require.ErrorIs(t, write(), partition.ErrConcurrentTransactions)
		require.Equal(t, endWait, time.Since(began))
		time.Sleep(2 * time.Second)
		require.NoError(t, write())
	})
}

// txnBatch returns a batch of one record of a transaction.
func txnBatch(t *testing.T, p Producer, seq int32) []byte {
	t.Helper()
	var b record.Builder
	b.SetProducer(p.ID, p.Epoch, seq)
	b.SetTransactional(true)
	b.AppendKV(time.Now().UnixMilli(), nil, []byte("v"), nil)
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	return batch
}
