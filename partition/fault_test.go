package partition

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestFailedWriteIsForgottenAndTheRetryIsTakenWhenTheDiskHasRoomAgain(t *testing.T) {
	fs := vfs.Mem()
	p := openLeader(t, testConfig(fs))
	require.NoError(t, send(p, batchSpec{pid: 1}).Err)
	full := fs.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpAllocate, Pattern: "*.log", Times: vfs.Always, Err: syscall.ENOSPC})
	for range 2 {
		res := send(p, batchSpec{pid: 1, seq: 1, txn: true})
		require.ErrorIs(t, res.Err, syscall.ENOSPC)
		require.Equal(t, int64(-1), res.BaseOffset)
	}
	require.Equal(t, int32(0), p.Producers()[0].LastSequence)
	require.Equal(t, int64(-1), p.Producers()[0].TxnFirstOffset)
	full()
	res := send(p, batchSpec{pid: 1, seq: 1})
	require.NoError(t, res.Err)
	require.False(t, res.Duplicate)
	require.Equal(t, int64(1), res.BaseOffset)
}

func TestFailedSyncAcknowledgesNothingAndShowsNothing(t *testing.T) {
	fs := vfs.Mem()
	p := openLeader(t, testConfig(fs))
	require.NoError(t, send(p, batchSpec{pid: 1}).Err)
	heal := fs.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Err: syscall.EIO})
	res := send(p, batchSpec{pid: 1, seq: 1})
	require.ErrorIs(t, res.Err, syscall.EIO)
	require.Equal(t, int64(1), p.HighWatermark())
	require.Len(t, readAll(t, p, ReadUncommitted), 1)
	heal()
	require.ErrorIs(t, send(p, batchSpec{pid: 1, seq: 1}).Err, syscall.EIO, "the failure stays until the partition is opened again")
	require.ErrorIs(t, sendBytes(p, batchSpec{}.build(), record.AcksNone).Err, syscall.EIO)
	require.Len(t, readAll(t, p, ReadUncommitted), 1)
	_ = p.Close()

	p = reopen(t, testConfig(fs), 1)
	require.NoError(t, send(p, batchSpec{pid: 1, seq: 1}).Err)
	require.Len(t, readAll(t, p, ReadUncommitted), 2, "written once, whether the first attempt is there or not")
	require.NoError(t, p.Close())
}
