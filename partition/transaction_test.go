package partition

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestReadCommittedStopsAtTheOldestOpenTransaction(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	send(p, batchSpec{value: "plain"})
	send(p, batchSpec{pid: 1, txn: true, value: "open"})
	send(p, batchSpec{pid: 2, txn: true, value: "done"})
	require.NoError(t, end(p, TxnMarker{ProducerID: 2, Commit: true}).Err)
	send(p, batchSpec{value: "late"})
	require.Equal(t, int64(1), p.LastStableOffset())
	require.Equal(t, int64(5), p.HighWatermark())
	require.Equal(t, []seen{{0, "plain0"}}, readAll(t, p, ReadCommitted))
	require.Equal(t, []seen{{0, "plain0"}, {1, "open0"}, {2, "done0"}, {4, "late0"}}, readAll(t, p, ReadUncommitted))

	require.NoError(t, end(p, TxnMarker{ProducerID: 1, Commit: false}).Err)
	require.Equal(t, int64(6), p.LastStableOffset())
	require.Equal(t, []seen{{0, "plain0"}, {2, "done0"}, {4, "late0"}}, readAll(t, p, ReadCommitted))
}

func TestReadNamesTheAbortedTransactionsOfItsRange(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	for i := range int32(3) {
		send(p, batchSpec{pid: 1, seq: 2 * i, txn: true})
		send(p, batchSpec{pid: 1, seq: 2*i + 1, txn: true})
		require.NoError(t, end(p, TxnMarker{ProducerID: 1, Commit: i == 1}).Err)
	}
	res, err := p.Read(ReadRequest{CurrentLeaderEpoch: -1})
	require.NoError(t, err)
	require.Equal(t, []AbortedTxn{{1, 0}, {1, 6}}, res.Aborted)
	require.Equal(t, []seen{{3, "0"}, {4, "0"}}, readAll(t, p, ReadCommitted))
	res, err = p.Read(ReadRequest{Offset: 3, MaxBytes: 1, CurrentLeaderEpoch: -1})
	require.NoError(t, err)
	require.Empty(t, res.Aborted)
	res, err = p.Read(ReadRequest{Isolation: ReadUncommitted, CurrentLeaderEpoch: -1})
	require.NoError(t, err)
	require.Nil(t, res.Aborted)
}

func TestMarkerFencesOlderEpochsAndCoordinators(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	send(p, batchSpec{pid: 1, epoch: 3, txn: true})
	require.ErrorIs(t, end(p, TxnMarker{ProducerID: 1, ProducerEpoch: 2}).Err, ErrInvalidProducerEpoch)
	require.NoError(t, end(p, TxnMarker{ProducerID: 1, ProducerEpoch: 4, CoordinatorEpoch: 7, Commit: true}).Err)
	require.ErrorIs(t, send(p, batchSpec{pid: 1, epoch: 3, seq: 1, txn: true}).Err, ErrInvalidProducerEpoch, "the zombie")
	require.ErrorIs(t, end(p, TxnMarker{ProducerID: 1, ProducerEpoch: 4, CoordinatorEpoch: 6}).Err, ErrCoordinatorFenced)
	require.ErrorIs(t, send(p, batchSpec{pid: 1, epoch: 4, seq: 1, txn: true}).Err, ErrOutOfOrderSequence)
	require.NoError(t, send(p, batchSpec{pid: 1, epoch: 4, txn: true}).Err)
	require.ErrorIs(t, send(p, batchSpec{pid: 1, epoch: 4, seq: 1}).Err, ErrInvalidTxnState)
	require.Equal(t, []ProducerState{{ProducerID: 1, Epoch: 4, LastOffset: 2, LastTimestampMs: p.Producers()[0].LastTimestampMs,
		CoordinatorEpoch: 7, TxnFirstOffset: 2}}, p.Producers())
}

// A coordinator that got no response for its marker writes it again. The producer may have begun
// its next transaction by then, in the epoch of the marker.
func TestRepeatedMarkerOfVersion2LeavesTheNextTransactionAlone(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	commit := TxnMarker{ProducerID: 1, ProducerEpoch: 4, Commit: true, Version: 2}
	require.NoError(t, send(p, batchSpec{pid: 1, epoch: 3, txn: true, value: "a"}).Err)
	require.NoError(t, end(p, commit).Err)
	require.NoError(t, end(p, commit).Err, "nothing is open: it ends nothing")
	require.NoError(t, send(p, batchSpec{pid: 1, epoch: 4, txn: true, value: "b"}).Err)
	require.ErrorIs(t, end(p, commit).Err, ErrInvalidProducerEpoch)
	require.Equal(t, []seen{{0, "a0"}}, readAll(t, p, ReadCommitted))
	require.EqualValues(t, 3, p.LastStableOffset())
	require.NoError(t, end(p, TxnMarker{ProducerID: 1, ProducerEpoch: 5, Version: 2}).Err)
	require.Equal(t, []seen{{0, "a0"}}, readAll(t, p, ReadCommitted), "it was aborted")
	require.EqualValues(t, 5, p.LastStableOffset())

	// before version 2 the marker has the transaction's own epoch
	require.NoError(t, send(p, batchSpec{pid: 1, epoch: 5, txn: true, value: "c"}).Err)
	require.NoError(t, end(p, TxnMarker{ProducerID: 1, ProducerEpoch: 5, Commit: true}).Err)
	require.Equal(t, []seen{{0, "a0"}, {5, "c0"}}, readAll(t, p, ReadCommitted))
}

func TestMarkerBytesAreKafkas(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	require.NoError(t, end(p, TxnMarker{ProducerID: 4000, ProducerEpoch: 2, CoordinatorEpoch: 5, Commit: true}).Err)
	b := firstBatch(t, p)
	require.Equal(t, 78, b.Size())
	require.Equal(t, record.Attributes(0x30), b.Attributes)
	require.Equal(t, int32(-1), b.BaseSequence)
	kind, coordinator, err := b.Control()
	require.NoError(t, err)
	require.Equal(t, record.ControlCommit, kind)
	require.Equal(t, int32(5), coordinator)
	require.Empty(t, readAll(t, p, ReadCommitted), "readers do not see it")
	require.Equal(t, int64(1), p.LogEndOffset(), "but it takes an offset")
}

func TestDeletedBeginningOfATransactionHoldsNothingBack(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	send(p, batchSpec{pid: 1, txn: true})
	send(p, batchSpec{n: 3, value: "v"})
	start, err := p.DeleteRecords(2)
	require.NoError(t, err)
	require.Equal(t, int64(2), start)
	require.Equal(t, int64(2), p.LastStableOffset())
	st := p.Stats()
	require.LessOrEqual(t, st.LogStartOffset, st.LastStableOffset)
}

// A reader does not take the aborted records for committed, and compaction does not take them for
// the newest of their key.
func TestAbortWhoseIndexEntryFailedStaysOne(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpSync} {
		for i, how := range []string{"closed", "cut", "closed", "cut"} {
			aborts := int32(1 + i/2)
			t.Run(fmt.Sprint(op, " ", how, " ", aborts), func(t *testing.T) {
				fs := vfs.Mem()
				cfg := testConfig(fs)
				cfg.Log.Cleanup = log.CleanupCompact
				p := openLeader(t, cfg)
				require.NoError(t, send(p, batchSpec{pid: 2, key: "k", value: "a"}).Err)
				fs.Inject(vfs.Fault{Ops: op, Pattern: "*.txnindex", Err: syscall.EIO})
				for seq := range aborts {
					require.NoError(t, send(p, batchSpec{pid: 1, seq: seq, txn: true, key: "k", value: "aborted"}).Err)
					require.NoError(t, end(p, TxnMarker{ProducerID: 1}).Err)
				}
				require.Equal(t, []seen{{0, "a0"}}, readAll(t, p, ReadCommitted))
				require.NoError(t, p.Roll())
				require.NoError(t, send(p, batchSpec{key: "other", value: "b"}).Err)
				_, err := p.Clean(t.Context())
				require.NoError(t, err)
				if how == "cut" {
					p.BecomeFollower()
					require.NoError(t, p.TruncateTo(p.LogEndOffset()))
					require.NoError(t, p.BecomeLeader(1))
				} else {
					require.NoError(t, p.Close())
					p = reopen(t, cfg, 1)
				}
				want := []seen{{0, "a0"}, {int64(2*aborts) + 1, "b0"}}
				require.Equal(t, want, readAll(t, p, ReadCommitted))
				require.NoError(t, p.Close())
				cfg.Log.FS = fs.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
				p = reopen(t, cfg, 2)
				require.Equal(t, want, readAll(t, p, ReadCommitted))
				require.NoError(t, p.Close())
			})
		}
	}
}

// Records that the coordinator of the partition's own state writes in transactions need no
// sequence and no transactional id. The coordinator also writes the markers; other producers must
// not.
func TestCoordinatorWritesInTransactionsInItsOwnOrder(t *testing.T) {
	cfg := testConfig(vfs.Mem())
	p := openLeader(t, cfg)
	write := func(batch []byte) error {
		done := make(chan ProduceResult, 1)
		p.Produce(&ProduceRequest{Batch: batch, Acks: record.AcksAll, Coordinator: true, Done: func(r ProduceResult) { done <- r }})
		return (<-done).Err
	}
	data := func(epoch int16, value string) []byte {
		return batchSpec{pid: 1, epoch: epoch, txn: true, n: 2, value: value}.build()
	}
	marker := func(epoch int16, coordinatorEpoch int32) []byte {
		return record.ControlBatch(nil, record.ControlCommit, coordinatorEpoch, record.ControlInfo{LeaderEpoch: -1, ProducerID: 1, ProducerEpoch: epoch})
	}
	require.NoError(t, write(data(3, "a")))
	require.NoError(t, write(data(3, "b")), "the same sequence is no repetition")
	require.Equal(t, int64(0), p.LastStableOffset())
	require.NoError(t, write(marker(3, 7)))
	require.Equal(t, []seen{{0, "a0"}, {1, "a1"}, {2, "b0"}, {3, "b1"}}, readAll(t, p, ReadCommitted))

	require.NoError(t, write(data(5, "c")))
	require.ErrorIs(t, write(data(4, "late")), ErrInvalidProducerEpoch)
	require.ErrorIs(t, write(marker(4, 7)), ErrInvalidProducerEpoch)
	require.ErrorIs(t, write(marker(5, 6)), ErrCoordinatorFenced)
	torn := marker(5, 7)
	torn[len(torn)-1]++
	require.ErrorIs(t, write(torn), ErrCorrupt)
	require.Equal(t, int64(5), p.LastStableOffset())
	require.Equal(t, int64(7), p.LogEndOffset())

	done := make(chan ProduceResult, 1)
	p.Produce(&ProduceRequest{Batch: marker(5, 7), Acks: record.AcksAll, TransactionalID: "x", Done: func(r ProduceResult) { done <- r }})
	require.ErrorIs(t, (<-done).Err, ErrInvalidRecord, "a client's marker")
	require.NoError(t, p.Close())

	p = reopen(t, cfg, 1)
	defer p.Close()
	require.Equal(t, int64(5), p.LastStableOffset())
	require.NoError(t, write(data(5, "d")))
	require.NoError(t, write(marker(6, 8)))
	require.Equal(t, p.LogEndOffset(), p.LastStableOffset())
}
