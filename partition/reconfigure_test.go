package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// TestPolicyChangesUnderLoad switches between the policies while batches are produced, over a disk
// with slow syncs. No produce may hang. While records have to be durable before they are
// acknowledged, the high watermark is never above the durable offset.
func TestPolicyChangesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.Mem()
		fs.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: time.Millisecond})
		p := openLeader(t, testConfig(fs))
		stop := make(chan struct{})
		produced := make(chan int)
		go func() {
			n := 0
			defer func() { produced <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				res := send(p, batchSpec{})
				if res.Err != nil {
					t.Error(res.Err)
				}
				n++
				time.Sleep(10 * time.Microsecond) // or the clock of the bubble would stop
			}
		}()
		for i := range 200 {
			cfg := testConfig(fs)
			cfg.Log.Sync = []log.SyncPolicy{log.SyncNever, log.SyncOnAck}[i%2]
			require.NoError(t, p.Reconfigure(cfg))
			if cfg.Log.Sync == log.SyncOnAck {
				hw := p.HighWatermark() // first: the durable offset only grows
				require.LessOrEqual(t, hw, p.log.DurableOffset())
			}
			time.Sleep(100 * time.Microsecond)
		}
		close(stop)
		require.EqualValues(t, <-produced, p.HighWatermark())
	})
}

// TestWaitingProduceIsAcknowledgedByAPolicyThatAsksForLess has a batch that is written but not
// durable, and waits for the high watermark.
func TestWaitingProduceIsAcknowledgedByAPolicyThatAsksForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.Mem()
		p := openLeader(t, testConfig(fs))
		slow := fs.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: time.Second})
		defer slow()
		began, done := time.Now(), make(chan ProduceResult, 1)
		var waited time.Duration
		p.Produce(&ProduceRequest{Batch: batchSpec{}.build(), Acks: record.AcksAll, Done: func(r ProduceResult) {
			waited = time.Since(began)
			done <- r
		}})
		synctest.Wait() // it is written, and its sync is running
		require.EqualValues(t, 1, p.LogEndOffset())
		cfg := testConfig(fs)
		cfg.Log.Sync = log.SyncNever
		require.NoError(t, p.Reconfigure(cfg))
		require.NoError(t, (<-done).Err)
		require.Equal(t, time.Second, waited, "what was written under SyncOnAck is acknowledged under it")
		require.NoError(t, send(p, batchSpec{}).Err)
		require.EqualValues(t, 2, p.HighWatermark())
	})
}
