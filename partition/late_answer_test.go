package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// asked returns the fetch of a follower in an epoch, with its log as it is.
func asked(p *Partition, epoch int32) ReplicaFetch {
	ask := p.Position()
	ask.LeaderEpoch = epoch
	return ask
}

// On a slow network a response may arrive when this replica follows another leader, or leads. The
// response does not apply to records that the replica has stored since.
func TestLateAnswerOfAnEarlierLeaderCutsNothing(t *testing.T) {
	p, _ := follower(t, 0, "a", "b")
	defer p.Close()
	early := asked(p, 1)
	late := func(name string) {
		end := p.LogEndOffset()
		_, err := p.Converge(early, Divergence{Epoch: 0, End: 0})
		require.ErrorIs(t, err, ErrFencedLeaderEpoch, name)
		require.ErrorIs(t, p.StartAt(early, 100, log.Purged{}), ErrFencedLeaderEpoch, name)
		require.ErrorIs(t, p.AdvanceStart(1, 1), ErrFencedLeaderEpoch, name)
		require.Equal(t, end, p.LogEndOffset(), name)
		require.Zero(t, p.LogStartOffset(), name)
	}
	require.NoError(t, p.Follow(2))
	late("it follows another")
	copyTo(t, p, 2, 0, "c")
	late("it has more by now")
	require.NoError(t, p.BecomeLeader(3))
	late("it leads")
}

// The epoch is the same, but the log is different: it was truncated or copied to already.
func TestAnswerForALogThatEndsElsewhereCutsNothing(t *testing.T) {
	p, _ := follower(t, 0, "a", "b")
	defer p.Close()
	early := asked(p, 1)
	copyTo(t, p, 2, 0, "c")
	_, err := p.Converge(early, Divergence{Epoch: 0, End: 0})
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	require.ErrorIs(t, p.StartAt(early, 100, log.Purged{}), ErrOffsetOutOfRange)
	require.Equal(t, int64(3), p.LogEndOffset())
}

// An append that was in progress when the leadership ended may reach the log after the follower has
// sent its fetch. The new leader does not have the record, and its response does not cover it.
func TestRecordWrittenAfterTheLeadershipEndedIsNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.Mem()
		p := openLeader(t, testConfig(fs))
		require.NoError(t, send(p, batchSpec{value: "a"}).Err)
		slow := fs.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Times: vfs.Always, Delay: time.Minute})
		result := make(chan ProduceResult, 1)
		go func() { result <- send(p, batchSpec{value: "late"}) }()
		synctest.Wait()
		require.NoError(t, p.Follow(1))
		ask := asked(p, 1)
		require.EqualValues(t, 1, ask.Offset)
		require.ErrorIs(t, (<-result).Err, ErrNotLeaderAfterAppend)
		slow()
		require.EqualValues(t, 2, p.LogEndOffset())
		// The new leader has more, but its response is full with the records of other partitions.
		copyTo(t, p, ask.Offset, 9, "")
		require.EqualValues(t, 1, p.HighWatermark())
		_, err := p.Converge(asked(p, 1), Divergence{Epoch: 0, End: 1})
		require.NoError(t, err)
		copyTo(t, p, 1, 9, "b")
		require.EqualValues(t, 2, p.HighWatermark())
	})
}

// BecomeLeader begins its epoch in the log first. An append of the earlier epoch that comes in
// between is not written, and its producer sends it again.
func TestAppendBesideANewEpochOfTheSameLeaderIsSentAgain(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	require.NoError(t, p.log.LeadInEpoch(1))
	require.ErrorIs(t, send(p, batchSpec{value: "a"}).Err, ErrNotLeader)
	require.NoError(t, p.BecomeLeader(1))
	require.NoError(t, send(p, batchSpec{value: "a"}).Err)
	require.EqualValues(t, 1, p.LogEndOffset())
}

// A running truncation ends before the replica follows another leader, or leads.
func TestRoleWaitsForTheCutUnderWay(t *testing.T) {
	for name, change := range map[string]func(p *Partition) error{
		"follow": func(p *Partition) error { return p.Follow(2) },
		"lead":   func(p *Partition) error { return p.BecomeLeader(2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, fs := follower(t, 0, "a", "b", "c")
				defer p.Close()
				fs.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Delay: time.Minute})
				cut, changed := make(chan error, 1), make(chan time.Time, 1)
				begin := time.Now()
				go func() {
					_, err := p.Converge(asked(p, 1), Divergence{Epoch: 1, End: 1})
					cut <- err
				}()
				synctest.Wait()
				go func() {
					if change(p) == nil {
						changed <- time.Now()
					}
				}()
				require.NoError(t, <-cut)
				require.Equal(t, time.Minute, (<-changed).Sub(begin))
				require.Equal(t, int64(1), p.LogEndOffset())
			})
		})
	}
}
