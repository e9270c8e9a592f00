package systest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// An awayBed is a partition on brokers 1 and 3 of three. Broker 3 is down for a while.
type awayBed struct {
	*testing.T
	c  *strata.Cluster
	of record.TopicPartition
}

func withAwayBed(t *testing.T, settings log.Config, do func(b *awayBed)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{Assignment: [][]int32{{1, 3}}, MinInSyncReplicas: 1, Log: settings}))
		do(&awayBed{t, c, at("t", 0)})
	})
}

// put writes a record with a key, in the transaction of p unless it is nil; value "": a tombstone.
func (b *awayBed) put(p *txnClient, key, value string) {
	b.Helper()
	var build record.Builder
	build.Reset(0)
	r := &partition.ProduceRequest{TopicPartition: b.of, Acks: record.AcksAll}
	if p != nil {
		build.SetProducer(p.p.ID, p.p.Epoch, p.seqs[b.of])
		build.SetTransactional(true)
		r.TransactionalID, r.TxnVersion = p.id, p.version
		p.seqs[b.of]++
	}
	var v []byte
	if value != "" {
		v = []byte(value)
	}
	build.AppendKV(time.Now().UnixMilli(), []byte(key), v, nil)
	var err error
	r.Batch, err = build.Build(record.None)
	require.NoError(b, err)
	done := make(chan error, 1)
	r.Done = func(r partition.ProduceResult) { done <- r.Err }
	b.c.Backend().Produce(r)
	require.NoError(b, <-done)
}

// committed returns the values that a ReadCommitted reader finds.
func (b *awayBed) committed() []string {
	b.Helper()
	r := &committedReader{of: b.of}
	require.NoError(b, r.read(b.Context(), b.c))
	return r.values
}

// compact has compaction remove all it may, also tombstones and markers.
func (b *awayBed) compact() {
	b.Helper()
	for i := range 3 {
		b.put(nil, "filler", fmt.Sprint("f", i))
		require.NoError(b, b.c.Roll(b.Context(), "t"))
		_, err := b.c.Clean(b.Context(), "t")
		require.NoError(b, err)
		time.Sleep(2 * time.Second)
	}
}

// away runs do while broker 3 is down. Then broker 3 returns, is in sync, and leads.
func (b *awayBed) away(do func()) {
	b.Helper()
	require.NoError(b, b.c.KillBroker(3))
	do()
	require.NoError(b, b.c.StartBroker(b.Context(), 3))
	await(b.T, "broker 3 is in sync", func() bool { return len(b.c.Backend().Status("t", 0).ISR) == 2 })
	require.NoError(b, b.c.StopBroker(b.Context(), 1))
	await(b.T, "broker 3 leads", func() bool { return b.c.Backend().Status("t", 0).Leader == 3 })
}

func compacted() log.Config {
	return log.Config{Cleanup: log.CleanupCompact, MinDirtyRatio: 0.01, DeleteRetention: time.Second}
}

// Compaction has removed the marker of an aborted transaction, or the tombstone of a key, before a
// replica fetched it. When the replica leads, the aborted and deleted records do not reappear.
func TestReplicaThatWasAwayWhileCompactionTookMarkersAndTombstones(t *testing.T) {
	for version := range int16(3) {
		if version == 1 {
			continue // clients have no version 1
		}
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			withAwayBed(t, compacted(), func(b *awayBed) {
				t := b.T // of the bubble
				b.put(nil, "k", "deleted")
				p := newTxnClient(t, b.c, "w", version)
				b.begin(p)
				b.put(p, "x", "aborted")
				var stable int64
				b.away(func() {
					require.NoError(t, p.end(t, false))
					b.put(nil, "k", "")
					b.compact()
					stable, _ = stableEnd(t, b.c, b.of)
				})
				now, end := stableEnd(t, b.c, b.of)
				require.GreaterOrEqual(t, now, stable, "the last stable offset")
				require.Equal(t, end, now, "nothing is open")
				require.NotContains(t, b.committed(), "deleted")
				b.begin(p)
				b.put(p, "y", "committed")
				require.NoError(t, p.end(t, true))
				await(t, "the marker", func() bool { stable, end := stableEnd(t, b.c, b.of); return stable == end })
				require.NotContains(t, b.committed(), "aborted")
				require.Contains(t, b.committed(), "committed")
			})
		})
	}
}

// begin adds the partition to the transaction of p, if its version requires a request for that.
func (b *awayBed) begin(p *txnClient) {
	b.Helper()
	if p.version < 2 {
		who := transaction.AddRequest{ID: p.id, Producer: p.p, Partitions: []record.TopicPartition{b.of}}
		require.NoError(b, b.c.TransactionCoordinator().AddPartitions(b.Context(), who))
	}
}

// DeleteRecords removes the start of a transaction while a replica is down. The replica's log then
// starts after it. Every leader must have the same last stable offset.
func TestReplicaThatWasAwayWhileTheBeginningOfATransactionWasDeleted(t *testing.T) {
	for _, more := range []bool{false, true} {
		t.Run(fmt.Sprint("more of it is left ", more), func(t *testing.T) {
			withAwayBed(t, log.Config{}, func(b *awayBed) {
				t := b.T // of the bubble
				b.put(nil, "", "first")
				p := newTxnClient(t, b.c, "w", 2)
				var stable int64
				b.away(func() {
					b.put(p, "", "open")
					_, err := b.c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{b.of: 2})
					require.NoError(t, err)
					b.put(nil, "", "later")
					if more {
						b.put(p, "", "open, too")
					}
					stable, _ = stableEnd(t, b.c, b.of)
				})
				now, _ := stableEnd(t, b.c, b.of)
				require.Equal(t, stable, now, "at the replica that has not seen the beginning")
				require.NoError(t, b.c.StartBroker(t.Context(), 1))
				await(t, "broker 1 is in sync", func() bool { return len(b.c.Backend().Status("t", 0).ISR) == 2 })
				require.NoError(t, b.c.StopBroker(t.Context(), 3))
				await(t, "broker 1 leads", func() bool { return b.c.Backend().Status("t", 0).Leader == 1 })
				again, _ := stableEnd(t, b.c, b.of)
				require.Equal(t, now, again, "at the one that has")
				require.NoError(t, p.end(t, true))
				await(t, "the marker", func() bool { stable, end := stableEnd(t, b.c, b.of); return stable == end })
			})
		})
	}
}
