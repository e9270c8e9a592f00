package verify

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// abortIn writes a transaction of one record, and aborts it.
func abortIn(t *testing.T, p *partition.Partition, epoch int16) {
	t.Helper()
	var b record.Builder
	b.SetProducer(1, epoch, 0)
	b.SetTransactional(true)
	b.AppendKV(time.Now().UnixMilli(), nil, []byte("v"), nil)
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	done := make(chan error, 1)
	tell := func(r partition.ProduceResult) { done <- r.Err }
	p.Produce(&partition.ProduceRequest{Batch: batch, Acks: record.AcksAll, TransactionalID: "tx", Done: tell})
	require.NoError(t, <-done)
	p.EndTransaction(partition.TxnMarker{ProducerID: 1, ProducerEpoch: epoch}, tell)
	require.NoError(t, <-done)
}

// The next open rebuilds a transaction index after a crash, so the index is no damage. After an
// orderly close the next open does not check it, and a missing index is damage.
func TestTransactionIndexThatTheNextOpenMakesAnewIsNoDamage(t *testing.T) {
	disk := vfs.Mem()
	// Guards the variables below while the log is open: it also syncs in the background.
	var mu sync.Mutex
	var left []*vfs.MemFS
	var calls []string
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 {
			mu.Lock()
			defer mu.Unlock()
			lost := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
			left, calls = append(left, disk.Kill(), lost), append(calls, "killed before "+e.String(), "cut before "+e.String())
		}
	}})
	p, err := partition.Open("p", partition.Config{Topic: "t", Log: log.Config{FS: disk}})
	require.NoError(t, err)
	require.NoError(t, p.BecomeLeader(0))
	for epoch := range int16(3) {
		abortIn(t, p, 2*epoch)
		abortIn(t, p, 2*epoch+1)
		require.NoError(t, p.Roll())
	}
	abortIn(t, p, 20)
	p.BecomeFollower()
	require.NoError(t, p.TruncateTo(11))
	require.NoError(t, p.Close())
	stop()
	for i, d := range left {
		if _, err := d.Stat("p/00000000000000000000.log"); err == nil {
			_, fs := check(t, d, "p")
			require.Empty(t, damages(fs), calls[i])
		}
	}
	_, fs := check(t, disk, "p")
	require.Empty(t, damages(fs))
	require.NoError(t, disk.Remove("p/00000000000000000004.txnindex"))
	_, fs = check(t, disk, "p")
	require.Len(t, damages(fs), 2)
}
