package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

const never = "9223372036854775807"

// Without SyncOnAck a broker that was stopped in order has lost nothing, so its replicas keep
// their places in the in-sync sets. A broker that ended otherwise may have lost records.
func TestBrokersStoppedInOrderKeepTheirPlacesWithoutSyncOnAck(t *testing.T) {
	for name, restart := range map[string]func(t *testing.T, c *Cluster, ds disks) *Cluster{
		"all at once": func(t *testing.T, c *Cluster, ds disks) *Cluster {
			require.NoError(t, c.Close())
			return openWith(t, ds.config())
		},
		"one after the other, and the cluster": func(t *testing.T, c *Cluster, ds disks) *Cluster {
			require.NoError(t, c.StopBroker(t.Context(), 2))
			require.NoError(t, c.StopBroker(t.Context(), 3))
			require.NoError(t, c.Close())
			return openWith(t, ds.config())
		},
		"one after the other, and back": func(t *testing.T, c *Cluster, _ disks) *Cluster {
			require.NoError(t, c.StopBroker(t.Context(), 2))
			require.NoError(t, c.StopBroker(t.Context(), 3))
			require.NoError(t, c.StartBroker(t.Context(), 3))
			require.NoError(t, c.StopBroker(t.Context(), 1))
			require.NoError(t, c.StartBroker(t.Context(), 2))
			require.NoError(t, c.StartBroker(t.Context(), 1))
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, ds := openThree(t)
			replicated(t, c, "orders", 6, "flush.messages", never)
			for p := range int32(6) {
				require.NoError(t, all(c, at("orders", p), "a", "b").Err)
			}
			c = restart(t, c, ds)
			require.Zero(t, c.Stats().UncleanElections)
			for p := range int32(6) {
				inSync(t, c, at("orders", p), 3)
				require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", p)))
			}
		})
	}
}

// After any other end, the elections report possible losses.
func TestBrokersThatDiedLoseTheirPlacesWithoutSyncOnAck(t *testing.T) {
	for name, crash := range map[string]func(ds disks) disks{"power cut": disks.crash, "killed process": disks.kill} {
		t.Run(name, func(t *testing.T) {
			c, ds := openThree(t)
			replicated(t, c, "orders", 1, "flush.messages", never)
			require.NoError(t, all(c, at("orders", 0), "a").Err)
			dead := crash(ds)
			require.NoError(t, c.Close())
			require.EqualValues(t, 1, openWith(t, dead.config()).Stats().UncleanElections)
		})
	}
}

// A broker loses power and its unsynced records. It starts, and fails before it has registered,
// and its files are closed in order. The loss was never reported, so this end does not count as
// one in order.
func TestStartThatFailsDoesNotHideAPowerCut(t *testing.T) {
	c, ds := openThree(t)
	replicated(t, c, "orders", 1, "flush.messages", never)
	require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("min.insync.replicas", "3")))
	require.NoError(t, all(c, at("orders", 0), "a").Err)
	leader := c.Leader("orders", 0)
	follower, other := leader%3+1, (leader+1)%3+1
	require.NoError(t, c.KillBroker(follower))
	require.Contains(t, eligible(c, at("orders", 0)), follower)

	mend := ds[leader-1].Inject(vfs.Fault{Ops: vfs.OpWrite, Times: vfs.Always, Err: errDisk})
	mendOther := ds[other-1].Inject(vfs.Fault{Ops: vfs.OpWrite, Times: vfs.Always, Err: errDisk})
	require.Error(t, c.StartBroker(t.Context(), follower))
	mend()
	mendOther()
	require.Contains(t, eligible(c, at("orders", 0)), follower, "nobody was told of what it has lost")
	c.Network().Cut(NetworkPath{From: follower, To: leader}) // it does not rejoin the set
	require.NoError(t, c.StartBroker(t.Context(), follower))
	require.NotContains(t, eligible(c, at("orders", 0)), follower, fmt.Sprintf("%+v", c.Status("orders", 0)))
}

// eligible returns the replicas that may lead a partition without in-sync replicas.
func eligible(c *Cluster, tp tp) []int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Topics[tp.Topic].Partitions[tp.Partition].State().Eligible
}

// The next life removes the note before it writes anything. A power cut in that life then does not
// count as a stop in order.
func TestNoteOfAnOrderlyStopIsReadOnce(t *testing.T) {
	c, ds := openThree(t)
	replicated(t, c, "orders", 1, "flush.messages", never)
	require.NoError(t, all(c, at("orders", 0), "a").Err)
	require.NoError(t, c.Close())
	c = openWith(t, ds.config())
	dead := ds.crash()
	require.NoError(t, c.Close())
	require.EqualValues(t, 1, openWith(t, dead.config()).Stats().UncleanElections)
}
