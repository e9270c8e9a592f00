package replication

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// electionOrder creates topic orders, with one record. Its replicas are elected in the given
// order. Broker 1 is the controller.
func electionOrder(t *testing.T, c *Cluster, replicas []int32, props ...string) tp {
	t.Helper()
	cfg := topic.Config{Assignment: [][]int32{replicas}, Properties: properties(props...)}
	require.NoError(t, c.CreateTopic(t.Context(), "orders", cfg))
	require.NoError(t, all(c, at("orders", 0), "a").Err)
	inSync(t, c, at("orders", 0), len(replicas))
	return at("orders", 0)
}

// The disk of a follower fails. The follower is elected before it has left the in-sync set, and
// cannot begin its epoch.
func TestElectedReplicaThatCannotBeginGivesWay(t *testing.T) {
	for name, f := range map[string]vfs.Fault{
		"sync fails":       {Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO},
		"cut back fails":   {Ops: vfs.OpWrite | vfs.OpTruncate | vfs.OpCreate, Times: 5, Err: syscall.ENOSPC},
		"checkpoint fails": {Ops: vfs.OpCreate, Pattern: "leader-epoch-checkpoint*", Times: vfs.Always, Err: syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openThree(t)
				tp := electionOrder(t, c, []int32{2, 3, 1}, "min.insync.replicas", "2")
				ds[2].Inject(f)
				go all(c, tp, "b")
				time.Sleep(time.Second / 2)
				require.NoError(t, c.KillBroker(2))
				require.NoError(t, c.StartBroker(t.Context(), 2))
				require.True(t, sends(t, c, tp, "c", 10*time.Second), "%+v", c.Status("orders", 0))
				require.NotEqual(t, int32(3), c.Leader("orders", 0))
			})
		})
	}
}

// No other replica can lead.
func TestElectedReplicaBeginsWhenItsDiskAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		tp := electionOrder(t, c, []int32{2, 3}, "min.insync.replicas", "1")
		mend := ds[2].Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "leader-epoch-checkpoint*", Times: vfs.Always, Err: syscall.ENOSPC})
		require.NoError(t, c.KillBroker(2))
		require.False(t, sends(t, c, tp, "c", time.Minute))
		mend()
		require.True(t, sends(t, c, tp, "d", 3*time.Second), "%+v", c.Status("orders", 0))
		require.Equal(t, int32(3), c.Leader("orders", 0))
	})
}

// Because of its disk the replica could not drop the epoch that it led without a record.
func TestReplicaFollowsWhenItsDiskAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		tp := electionOrder(t, c, []int32{2, 3, 1}, "min.insync.replicas", "2")
		require.NoError(t, c.TransferLeader(t.Context(), tp, 3))
		mend := ds[2].Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "leader-epoch-checkpoint*", Times: vfs.Always, Err: syscall.ENOSPC})
		require.NoError(t, c.TransferLeader(t.Context(), tp, 1))
		require.NoError(t, all(c, tp, "b").Err, "when the replica has left the in-sync set")
		inSync(t, c, tp, 2)
		time.Sleep(time.Minute)
		mend()
		time.Sleep(10 * time.Second) // long before the leader moves for balance
		require.Len(t, c.Status("orders", 0).ISR, 3)
	})
}

// The partition was never written, and a follower returns. To take it into the in-sync set the
// leader creates the partition's files, and its disk is full.
func TestLeaderOfAFullDiskMakesFilesAgainAfterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{2, 1, 3}}}))
		require.NoError(t, c.KillBroker(2))
		mend := ds[0].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "strata.state*", Times: vfs.Always, Err: syscall.ENOSPC})
		var created atomic.Int64
		stop := ds[0].Observe(vfs.Observer{After: func(e vfs.Event, _ error) {
			if e.Op == vfs.OpCreate && created.Add(1) == 1000 {
				mend() // otherwise no time would pass
			}
		}})
		defer stop()
		require.NoError(t, c.StartBroker(t.Context(), 2))
		time.Sleep(time.Minute)
		require.Less(t, created.Load(), int64(200))
		mend()
		require.True(t, sends(t, c, at("orders", 0), "a", time.Minute))
	})
}
