package partition

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// woken is a waiter with a count of its wakes.
type woken struct {
	*Waiter
	n atomic.Int32
}

func newWoken(minBytes int, isolation Isolation) *woken {
	w := &woken{}
	w.Waiter = NewWaiter(minBytes, isolation, func() { w.n.Add(1) })
	return w
}

func (w *woken) times() int {
	synctest.Wait()
	return int(w.n.Load())
}

// bubble runs a test in a synctest bubble with two partitions that are closed at its end.
func bubble(t *testing.T, test func(t *testing.T, a, b *Partition)) {
	synctest.Test(t, func(t *testing.T) {
		open := func() *Partition {
			p, err := Open("p", testConfig(vfs.Mem()))
			require.NoError(t, err)
			require.NoError(t, p.BecomeLeader(0))
			return p
		}
		a, b := open(), open()
		defer func() {
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}()
		test(t, a, b)
	})
}

func TestWaiterWakesOnceWhenRecordsBecomeVisible(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Partition) {
		w := newWoken(1, ReadCommitted)
		a.Watch(0, w.Waiter)
		b.Watch(0, w.Waiter)
		require.Zero(t, w.times())
		send(b, batchSpec{})
		require.Equal(t, 1, w.times())
		send(a, batchSpec{})
		send(b, batchSpec{})
		require.Equal(t, 1, w.times())
		w.Cancel()
		require.Zero(t, a.Stats().Watchers+b.Stats().Watchers)
	})
}

func TestWatchOfAPartitionThatMovedOnWakesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *Partition) {
		send(a, batchSpec{n: 3})
		w := newWoken(1<<20, ReadUncommitted)
		a.Watch(2, w.Waiter)
		require.Equal(t, 1, w.times())
		w.Cancel()
	})
}

func TestMinBytesSpanPartitions(t *testing.T) {
	size := len(batchSpec{value: "x"}.build())
	bubble(t, func(t *testing.T, a, b *Partition) {
		w := newWoken(4*size-1, ReadCommitted)
		a.Watch(0, w.Waiter)
		b.Watch(0, w.Waiter)
		for _, p := range []*Partition{a, b, a} {
			send(p, batchSpec{value: "x"})
			require.Zero(t, w.times())
		}
		send(b, batchSpec{value: "x"})
		require.Equal(t, 1, w.times())
		w.Cancel()
	})
}

func TestWaiterForAnOffsetAheadIsNotWokenBelowIt(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *Partition) {
		w := newWoken(1, ReadUncommitted)
		a.Watch(2, w.Waiter)
		send(a, batchSpec{n: 2})
		require.Zero(t, w.times())
		send(a, batchSpec{})
		require.Equal(t, 1, w.times())
		w.Cancel()
	})
}

func TestReadCommittedWaiterWaitsForTheMarker(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *Partition) {
		committed, uncommitted := newWoken(1, ReadCommitted), newWoken(1, ReadUncommitted)
		large := newWoken(1<<20, ReadCommitted)
		for _, w := range []*woken{committed, uncommitted, large} {
			a.Watch(0, w.Waiter)
		}
		send(a, batchSpec{pid: 1, txn: true})
		require.Equal(t, 1, uncommitted.times())
		require.Zero(t, committed.times())
		require.NoError(t, end(a, TxnMarker{ProducerID: 1, Commit: true}).Err)
		require.Equal(t, 1, committed.times())
		require.Equal(t, 1, large.times(), "how much a marker uncovers is not known: look again")
		for _, w := range []*woken{committed, uncommitted, large} {
			w.Cancel()
		}
	})
}

func TestCancelledWaiterIsNotWoken(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *Partition) {
		w := newWoken(1, ReadCommitted)
		a.Watch(0, w.Waiter)
		w.Cancel()
		send(a, batchSpec{})
		require.Zero(t, w.times())
	})
}

func TestCloseWakesEveryWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Open("p", testConfig(vfs.Mem()))
		require.NoError(t, err)
		require.NoError(t, p.BecomeLeader(0))
		ws := []*woken{newWoken(1, ReadCommitted), newWoken(1<<20, ReadUncommitted), newWoken(1<<20, ReadCommitted)}
		for _, w := range ws {
			p.Watch(0, w.Waiter)
		}
		require.NoError(t, p.Close())
		late := newWoken(1, ReadCommitted)
		p.Watch(0, late.Waiter)
		for _, w := range append(ws, late) {
			require.Equal(t, 1, w.times())
			w.Cancel()
		}
		_, err = p.Read(ReadRequest{CurrentLeaderEpoch: -1})
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestManyWaitersNeedNoGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *Partition) {
		var n atomic.Int32
		ws := make([]*Waiter, 10_000)
		for i := range ws {
			ws[i] = NewWaiter(1, ReadCommitted, func() { n.Add(1) })
			a.Watch(0, ws[i])
		}
		require.Equal(t, len(ws), a.Stats().Watchers)
		for _, w := range ws[:5000] {
			w.Cancel()
		}
		send(a, batchSpec{})
		synctest.Wait()
		require.Equal(t, int32(5000), n.Load())
		for _, w := range ws[5000:] {
			w.Cancel()
		}
	})
}

// slowSync makes every sync of a log file take d of virtual time.
func slowSync(d time.Duration) (*vfs.MemFS, Config) {
	fs := vfs.Mem()
	fs.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: d})
	return fs, testConfig(fs)
}

func TestTimeoutEndsTheWaitAndNotTheAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := slowSync(10 * time.Second)
		p, err := Open("p", cfg)
		require.NoError(t, err)
		require.NoError(t, p.BecomeLeader(0))
		send(p, batchSpec{})
		start := time.Now()
		results := make(chan ProduceResult, 2)
		for _, timeout := range []time.Duration{time.Second, time.Minute} {
			go p.Produce(&ProduceRequest{Batch: batchSpec{}.build(), Timeout: timeout, Done: func(r ProduceResult) { results <- r }})
			synctest.Wait() // written, or queued behind the sync
		}
		res := <-results
		require.ErrorIs(t, res.Err, ErrTimeout)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, int64(1), res.BaseOffset, "the records are in the log")
		res = <-results
		require.NoError(t, res.Err)
		require.Equal(t, int64(2), res.BaseOffset)
		require.Len(t, readAll(t, p, ReadCommitted), 3)
		require.NoError(t, p.Close())
		synctest.Wait()
		require.Empty(t, results, "Done is called once")
	})
}

func TestTimeoutOfABatchThatIsNotWrittenYetComesWhenItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := slowSync(10 * time.Second)
		p, err := Open("p", cfg)
		require.NoError(t, err)
		require.NoError(t, p.BecomeLeader(0))
		start := time.Now()
		results := make(chan ProduceResult, 2)
		for _, timeout := range []time.Duration{0, 2 * time.Second} {
			go p.Produce(&ProduceRequest{Batch: batchSpec{}.build(), Timeout: timeout, Done: func(r ProduceResult) { results <- r }})
			synctest.Wait() // being synced; queued behind that
		}
		require.NoError(t, (<-results).Err)
		res := <-results
		require.ErrorIs(t, res.Err, ErrTimeout)
		require.Equal(t, int64(1), res.BaseOffset)
		require.Equal(t, 10*time.Second, time.Since(start))
		require.NoError(t, p.Close())
	})
}

func TestTimeoutEndsTheWaitOfADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Open("p", testConfig(vfs.Mem()))
		require.NoError(t, err)
		require.NoError(t, p.BecomeLeader(0))
		batch := batchSpec{pid: 1}.build()
		_, err = p.AppendSync(t.Context(), batch, record.AcksAll)
		require.NoError(t, err)
		p.hw.Store(0) // as if followers did not have it
		start, again := time.Now(), make(chan ProduceResult, 2)
		p.Produce(&ProduceRequest{Batch: batch, Timeout: time.Second, Done: func(r ProduceResult) { again <- r }})
		res := <-again
		require.ErrorIs(t, res.Err, ErrTimeout)
		require.True(t, res.Duplicate)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, p.Close())
		synctest.Wait()
		require.Empty(t, again, "Done is called once")
	})
}

func TestNothingIsReadableBeforeItIsOnStableStorage(t *testing.T) {
	for _, c := range []struct {
		sync log.SyncPolicy
		want int64
	}{{log.SyncOnAck, 0}, {log.SyncNever, 1}} {
		synctest.Test(t, func(t *testing.T) {
			_, cfg := slowSync(time.Second)
			cfg.Log.Sync = c.sync
			p, err := Open("p", cfg)
			require.NoError(t, err)
			require.NoError(t, p.BecomeLeader(0))
			done := make(chan ProduceResult, 1)
			go p.Produce(&ProduceRequest{Batch: batchSpec{}.build(), Done: func(r ProduceResult) { done <- r }})
			time.Sleep(10 * time.Millisecond) // in the bubble: the sync is running
			require.Equal(t, int64(1), p.LogEndOffset())
			require.Equal(t, c.want, p.HighWatermark(), c.sync)
			require.Len(t, readAll(t, p, ReadUncommitted), int(c.want))
			require.NoError(t, (<-done).Err)
			require.Equal(t, int64(1), p.HighWatermark())
			require.NoError(t, p.Close())
		})
	}
}

func TestDuplicateWaitsForTheOriginalToBeSafe(t *testing.T) {
	for _, acks := range [][2]record.Acks{
		{record.AcksAll, record.AcksAll}, {record.AcksAll, record.AcksLeader}, {record.AcksNone, record.AcksAll}, {record.AcksNone, record.AcksLeader},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, cfg := slowSync(time.Second)
			p, err := Open("p", cfg)
			require.NoError(t, err)
			require.NoError(t, p.BecomeLeader(0))
			batch := batchSpec{pid: 1}.build()
			original, again := make(chan ProduceResult, 1), make(chan ProduceResult, 1)
			go p.Produce(&ProduceRequest{Batch: batch, Acks: acks[0], Done: func(r ProduceResult) { original <- r }})
			time.Sleep(time.Millisecond) // in the bubble: written, and being synced
			go p.Produce(&ProduceRequest{Batch: batch, Acks: acks[1], Done: func(r ProduceResult) { again <- r }})
			time.Sleep(time.Millisecond)
			require.Empty(t, again, "the original may still be lost")
			require.Zero(t, p.HighWatermark())
			r := <-again
			require.NoError(t, r.Err)
			require.True(t, r.Duplicate)
			require.Equal(t, int64(1), p.HighWatermark())
			require.Zero(t, (<-original).BaseOffset)
			require.NoError(t, p.Close())
		})
	}
}
