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

// submit produces a batch without waiting.
func submit(p *Partition, batch []byte) <-chan ProduceResult {
	done := make(chan ProduceResult, 1)
	p.Produce(&ProduceRequest{TopicPartition: p.tp, Batch: batch, Acks: record.AcksAll, Done: func(r ProduceResult) { done <- r }})
	return done
}

// slowSyncs makes each sync of a log file take an hour. It returns a function that ends that.
func slowSyncs(fsys *vfs.MemFS) func() {
	return fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: time.Hour})
}

func durable(fsys vfs.FS) Config {
	cfg := testConfig(fsys)
	cfg.Log.Sync = log.SyncOnAck
	return cfg
}

// A client keeps or reuses sequence numbers depending on whether the batch may be in the log: the
// two errors differ.
func TestLossOfTheLeadershipSaysWhetherABatchMayBeInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		p := openLeader(t, durable(fsys))
		slowSyncs(fsys)
		written := submit(p, batchSpec{pid: 5, n: 3}.build())
		synctest.Wait()
		queued := submit(p, batchSpec{pid: 5, seq: 3}.build())
		p.BecomeFollower()
		before := <-submit(p, batchSpec{pid: 5, seq: 4}.build())
		require.ErrorIs(t, before.Err, ErrNotLeader)
		require.NotErrorIs(t, before.Err, ErrNotLeaderAfterAppend)
		require.EqualValues(t, -1, before.BaseOffset)
		after := <-written
		require.ErrorIs(t, after.Err, ErrNotLeaderAfterAppend)
		require.NotErrorIs(t, after.Err, ErrNotLeader, "it is in the log")
		never := <-queued
		require.ErrorIs(t, never.Err, ErrNotLeader, "its turn came too late")
		require.Equal(t, int64(3), p.LogEndOffset())

		require.NoError(t, p.BecomeLeader(7))
		again := <-submit(p, batchSpec{pid: 5, n: 3}.build())
		require.NoError(t, again.Err)
		require.True(t, again.Duplicate)
		require.Zero(t, again.BaseOffset)
	})
}

// A write that fails after the leadership has ended does not show whether the batch was appended.
func TestDiskThatIsCutOffSaysNotThatNothingWasAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		session := vfs.NewSession(fsys)
		p, err := Open("p", durable(session))
		require.NoError(t, err)
		require.NoError(t, p.BecomeLeader(1))
		held, reached := make(chan struct{}), make(chan struct{})
		fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op == vfs.OpWrite && e.Len > 60 {
				close(reached)
				<-held
			}
		}})
		writing := submit(p, batchSpec{}.build())
		<-reached
		p.Resign()
		p.BecomeFollower()
		session.End()
		close(held)
		res := <-writing
		require.ErrorIs(t, res.Err, ErrNotLeaderAfterAppend)
		require.ErrorIs(t, res.Err, vfs.ErrEnded)
		require.Error(t, p.Close())
	})
}

func TestReplicaThatResignsEndsWhatItHasAndTakesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		p := openLeader(t, durable(fsys))
		mend := slowSyncs(fsys)
		written := submit(p, batchSpec{n: 2}.build())
		synctest.Wait()
		woken := make(chan struct{})
		w := NewWaiter(1<<20, ReadUncommitted, func() { close(woken) })
		p.Watch(2, w)
		p.Resign()
		<-woken
		w.Cancel()
		late := NewWaiter(1<<20, ReadUncommitted, func() { woken = nil })
		p.Watch(2, late)
		late.Cancel()
		require.Nil(t, woken, "there is nothing to wait for")
		require.ErrorIs(t, (<-submit(p, batchSpec{}.build())).Err, ErrNotLeader)
		_, err := p.Read(ReadRequest{CurrentLeaderEpoch: -1})
		require.ErrorIs(t, err, ErrNotLeader)
		require.EqualValues(t, -1, p.LeaderEpoch())
		mend()
		require.NoError(t, p.Close())
		require.NoError(t, (<-written).Err, "it was under way")
		require.ErrorIs(t, (<-submit(p, batchSpec{}.build())).Err, ErrNotLeader, "not ErrClosed: somebody else may lead")
		require.ErrorIs(t, p.BecomeLeader(9), ErrNotLeader)
	})
}

// Records that an earlier epoch may have acknowledged are below the high watermark when a leader's
// epoch begins, and no client sees the epoch before. Otherwise a coordinator that loads would miss
// commits. A consumer would get an end offset that other consumers are already past.
func TestLeaderShowsFromTheFirstMomentWhatEarlierEpochsMayHaveConfirmed(t *testing.T) {
	for _, sync := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		fsys := vfs.Mem()
		cfg := testConfig(fsys)
		cfg.Log.Sync = log.SyncNever // the next leader finds records that may not be durable
		p := reopen(t, cfg, 0)
		for seq := range int32(3) {
			require.NoError(t, (<-submit(p, batchSpec{pid: 5, seq: seq}.build())).Err)
		}
		cfg.Log.FS, cfg.Log.Sync = fsys.Kill(), sync
		_ = p.Close()
		p, err := Open("p", cfg)
		require.NoError(t, err)
		_, err = p.ListOffset(Latest, ReadUncommitted)
		require.ErrorIs(t, err, ErrNotLeader, "not before it leads")
		require.NoError(t, p.BecomeLeader(7))
		epoch, begin := p.EpochEnd(6)
		require.Equal(t, int32(0), epoch)
		require.Equal(t, int64(3), begin)
		require.GreaterOrEqual(t, p.HighWatermark(), begin)
		for _, isolation := range []Isolation{ReadUncommitted, ReadCommitted} {
			latest, err := p.ListOffset(Latest, isolation)
			require.NoError(t, err)
			require.Equal(t, begin, latest.Offset)
		}
		require.NoError(t, p.Close())
	}
}
