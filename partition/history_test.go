package partition

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Checklist row L4: the reads of an open do not grow with the size of the log.
func TestOpenOfACleanPartitionReadsNoBatches(t *testing.T) {
	t.Parallel()
	fs := vfs.Mem()
	p := openLeader(t, testConfig(fs))
	for seq := range int32(20) {
		require.NoError(t, send(p, batchSpec{pid: 1, seq: seq}).Err)
	}
	require.NoError(t, p.Close())
	var read []string
	fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpRead && strings.HasSuffix(e.Name, ".log") || e.Op == vfs.OpOpen && strings.HasSuffix(e.Name, "index") && !strings.HasSuffix(e.Name, ".txnindex") {
			read = append(read, e.String())
		}
	}})
	p = reopen(t, testConfig(fs), 1)
	require.Equal(t, int64(20), p.HighWatermark())
	require.Positive(t, p.Stats().SizeBytes)
	require.Len(t, p.Producers(), 1)
	require.Empty(t, read)
	require.NoError(t, p.Close())
}

// The batches that a producer may repeat are on both sides of the snapshot from the restart.
func TestRetriesOfBatchesOnBothSidesOfARestartAreRecognised(t *testing.T) {
	eachRestart(t, nil, func(t *testing.T, p *Partition, down func(*Partition) *Partition) {
		for seq := range int32(6) {
			require.NoError(t, send(p, batchSpec{pid: 1, seq: seq}).Err)
			require.NoError(t, send(p, batchSpec{pid: 2, seq: seq}).Err)
		}
		p = down(p)
		require.NoError(t, send(p, batchSpec{pid: 1, seq: 6}).Err)
		require.NoError(t, send(p, batchSpec{pid: 1, seq: 7}).Err)
		for seq := int32(3); seq < 8; seq++ {
			res := send(p, batchSpec{pid: 1, seq: seq})
			require.NoError(t, res.Err, "sequence %d", seq)
			require.True(t, res.Duplicate)
		}
		require.ErrorIs(t, send(p, batchSpec{pid: 1, seq: 2}).Err, ErrOutOfOrderSequence, "the sixth newest is forgotten, as without a restart")
		require.True(t, send(p, batchSpec{pid: 2, seq: 1}).Duplicate)
		require.NoError(t, send(p, batchSpec{pid: 1, seq: 8}).Err)
		require.Equal(t, int64(15), p.LogEndOffset())
	})
}

// An out-of-order error is final for a client, a disk error is not.
func TestRepeatedBatchWhoseOriginalCannotBeReadIsNotOutOfOrder(t *testing.T) {
	fs := vfs.Mem()
	p := openLeader(t, testConfig(fs))
	for seq := range int32(4) {
		require.NoError(t, send(p, batchSpec{pid: 1, seq: seq}).Err)
	}
	require.NoError(t, p.Roll())
	require.NoError(t, send(p, batchSpec{}).Err)
	require.NoError(t, p.Close())
	p = reopen(t, testConfig(fs), 1)
	heal := fs.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "00000000000000000000.log", Times: vfs.Always, Err: syscall.EIO})
	res := send(p, batchSpec{pid: 1, seq: 1})
	require.ErrorIs(t, res.Err, syscall.EIO)
	require.NotErrorIs(t, res.Err, ErrOutOfOrderSequence)
	heal()
	require.True(t, send(p, batchSpec{pid: 1, seq: 1}).Duplicate)
	require.NoError(t, p.Close())
}
