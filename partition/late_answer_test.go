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
