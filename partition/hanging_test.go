package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

func TestHangingTransactionsAreThoseThatNobodyWritesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = 15 * time.Minute
		cfg := testConfig(vfs.Mem())
		cfg.TimestampAfterMax = log.Unlimited
		p := openLeader(t, cfg)
		old, future := time.Now().Add(-24*time.Hour).UnixMilli(), time.Now().Add(24*time.Hour).UnixMilli()
		require.NoError(t, send(p, batchSpec{pid: 1, txn: true, ts: future}).Err)
		require.NoError(t, send(p, batchSpec{pid: 2, txn: true, ts: old}).Err)
		require.NoError(t, send(p, batchSpec{pid: 3, txn: true}).Err)
		require.NoError(t, send(p, batchSpec{pid: 4}).Err)
		time.Sleep(longest)
		require.Empty(t, p.HangingTransactions(longest))
		require.NoError(t, send(p, batchSpec{pid: 2, seq: 1, txn: true, ts: old}).Err)
		time.Sleep(time.Second)
		hanging := p.HangingTransactions(longest)
		require.Len(t, hanging, 2, "whatever their records' time, and not who writes nor who has none")
		require.EqualValues(t, 1, hanging[0].ProducerID)
		require.EqualValues(t, 3, hanging[1].ProducerID)
		require.EqualValues(t, 2, hanging[1].TxnFirstOffset)
		for _, h := range hanging {
			require.NoError(t, end(p, TxnMarker{ProducerID: h.ProducerID, ProducerEpoch: h.Epoch, CoordinatorEpoch: h.CoordinatorEpoch}).Err)
		}
		require.Empty(t, p.HangingTransactions(longest))
		require.EqualValues(t, 1, p.LastStableOffset(), "of producer 2")

		require.NoError(t, p.Close())
		p = reopen(t, cfg, 1)
		time.Sleep(longest)
		require.Empty(t, p.HangingTransactions(longest), "its coordinator may have been down as long as this")
		time.Sleep(time.Second)
		require.Len(t, p.HangingTransactions(longest), 1)
		require.NoError(t, p.Close())
	})
}
