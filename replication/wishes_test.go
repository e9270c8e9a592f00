package replication

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// soonInSync requires that n replicas are in sync within 1.5 s, without an append, and before the
// timer that checks the lag of followers.
func soonInSync(t *testing.T, c *Cluster, tp tp, n int) {
	t.Helper()
	begin := time.Now()
	inSync(t, c, tp, n)
	require.LessOrEqual(t, time.Since(begin), 1500*time.Millisecond)
}

// returning stops and starts a follower. It has all records of the leader, and cannot report this
// until the path is mended.
func returning(t *testing.T, c *Cluster, tp tp, id int32) (path NetworkPath) {
	t.Helper()
	require.NoError(t, all(c, tp, "a").Err)
	require.NoError(t, c.StopBroker(t.Context(), id))
	path = NetworkPath{From: id, To: c.Leader(tp.Topic, tp.Partition)}
	c.Network().Cut(path)
	require.NoError(t, c.StartBroker(t.Context(), id))
	time.Sleep(time.Second)
	require.NotContains(t, c.Status(tp.Topic, tp.Partition).ISR, id)
	return path
}

// The controller's disks fail for a while. A proposed in-sync set is declined, and proposed again
// soon.
func TestDeclinedWishIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		leader := c.Leader("orders", 0)
		path := returning(t, c, at("orders", 0), leader%3+1)
		version := c.MetadataVersion()
		var mend []func()
		for i := range ds {
			mend = append(mend, ds.fail(i+1))
		}
		c.Network().Mend(path)
		time.Sleep(3 * time.Second)
		require.Equal(t, version, c.MetadataVersion())
		require.Len(t, c.Status("orders", 0).ISR, 2)
		for _, m := range mend {
			m()
		}
		soonInSync(t, c, at("orders", 0), 3)
	})
}

// The proposal is lost on the way to the controller. Another broker is the controller before the
// path is mended, which it never is.
func TestLostWishIsAskedOfTheNextController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{2, 3}}}))
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		require.EqualValues(t, 1, c.Controller())
		c.Network().Cut(NetworkPath{From: 3, To: 2})
		require.NoError(t, all(c, at("orders", 0), "b").Err)
		inSync(t, c, at("orders", 0), 1)
		c.Network().Cut(NetworkPath{From: 2, To: 1})
		c.Network().Mend(NetworkPath{From: 3, To: 2})
		time.Sleep(5 * time.Second)
		require.Len(t, c.Status("orders", 0).ISR, 1, "the controller has not heard of it")
		require.NoError(t, c.StopBroker(t.Context(), 1))
		require.EqualValues(t, 2, c.Controller())
		soonInSync(t, c, at("orders", 0), 2)
	})
}

// The change for a proposal could be neither finished nor taken back. The proposal is repeated
// when the disks work, without any other change.
func TestWishOfUnknownOutcomeIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		leader := c.Leader("orders", 0)
		path := returning(t, c, at("orders", 0), leader%3+1)
		var mend []func()
		for _, d := range ds {
			for _, op := range []vfs.Op{vfs.OpSync, vfs.OpWrite, vfs.OpTruncate} {
				mend = append(mend, d.Inject(vfs.Fault{Ops: op, Times: vfs.Always, Err: errDisk}))
			}
		}
		c.Network().Mend(path)
		time.Sleep(3 * time.Second)
		require.Len(t, c.Status("orders", 0).ISR, 2)
		for _, m := range mend {
			m()
		}
		soonInSync(t, c, at("orders", 0), 3)
	})
}
