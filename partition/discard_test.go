package partition

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// discard is sendBytes for a batch whose records are discarded.
func discard(p *Partition, batch []byte, acks record.Acks) ProduceResult {
	done := make(chan ProduceResult, 1)
	p.Produce(&ProduceRequest{Batch: batch, Acks: acks, TransactionalID: "tx", DiscardRecords: true, Done: func(r ProduceResult) { done <- r }})
	return <-done
}

// A discarded batch takes its offsets and sequences, and is checked as any other batch. Its
// records are not there, also after a restart.
func TestDiscardedRecordsTakeOffsetsAndSequencesOnly(t *testing.T) {
	fs := vfs.Mem()
	cfg := testConfig(fs)
	p := openLeader(t, cfg)
	long := strings.Repeat("x", 1<<10)
	first := batchSpec{pid: 5, n: 3, ts: 77, value: long, codec: record.Zstd}.build()
	for _, acks := range []record.Acks{record.AcksNone, record.AcksLeader, record.AcksAll} {
		require.NoError(t, discard(p, batchSpec{n: 2, value: long}.build(), acks).Err)
	}
	require.Equal(t, int64(6), p.LogEndOffset())
	require.Equal(t, ProduceResult{BaseOffset: 6, LogAppendTimeMs: -1}, discard(p, first, record.AcksAll))
	require.Equal(t, ProduceResult{BaseOffset: 6, LogAppendTimeMs: 77, Duplicate: true}, discard(p, first, record.AcksAll))
	require.ErrorIs(t, discard(p, batchSpec{pid: 5, seq: 7}.build(), record.AcksAll).Err, ErrOutOfOrderSequence)
	bad := batchSpec{pid: 5, seq: 3}.build()
	bad[len(bad)-1]++
	require.ErrorIs(t, discard(p, bad, record.AcksAll).Err, record.ErrCorrupt)
	require.ErrorIs(t, discard(p, batchSpec{ts: 1 << 50}.build(), record.AcksAll).Err, record.ErrInvalidTimestamp)
	require.Equal(t, int64(9), p.LogEndOffset())

	require.NoError(t, discard(p, batchSpec{pid: 6, n: 2, txn: true, value: long}.build(), record.AcksAll).Err)
	require.Equal(t, int64(9), p.LastStableOffset(), "the transaction is open")
	require.NoError(t, end(p, TxnMarker{ProducerID: 6, Commit: true}).Err)
	require.Equal(t, int64(12), p.LastStableOffset())

	require.NoError(t, send(p, batchSpec{value: "kept"}).Err)
	kept := []seen{{12, "kept0"}}
	require.Equal(t, kept, readAll(t, p, ReadCommitted))
	require.Less(t, p.Stats().SizeBytes, int64(1<<10))
	_, err := p.ListOffset(MaxTimestamp, ReadUncommitted)
	require.NoError(t, err)

	require.NoError(t, p.Close())
	p = reopen(t, cfg, 1)
	require.Equal(t, kept, readAll(t, p, ReadCommitted))
	require.True(t, discard(p, first, record.AcksAll).Duplicate)
	require.NoError(t, discard(p, batchSpec{pid: 5, seq: 3}.build(), record.AcksAll).Err)
	require.Equal(t, int64(14), p.LogEndOffset())
	require.NoError(t, p.Close())
}
