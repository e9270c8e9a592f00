package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// cutBetween cuts the paths between pairs of brokers, both ways.
func cutBetween(c *Cluster, pairs ...[2]int32) (mend func()) {
	each := func(do func(NetworkPath)) {
		for _, p := range pairs {
			do(NetworkPath{From: p[0], To: p[1]})
			do(NetworkPath{From: p[1], To: p[0]})
		}
	}
	each(c.Network().Cut)
	return func() { each(c.Network().Mend) }
}

// The controller is cut off from the others. Another broker becomes the controller when the
// session ends, once, and keeps the role when the paths are mended.
func TestControllerThatOthersCannotReachIsReplaced(t *testing.T) {
	for name, cut := range map[string]func(c *Cluster, id int32) (mend func()){
		"both ways": func(c *Cluster, id int32) func() {
			return cutBetween(c, [2]int32{id, id%3 + 1}, [2]int32{id, (id+1)%3 + 1})
		},
		"towards it": isolate,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openThree(t)
				replicated(t, c, "orders", 3)
				former, epoch := c.Controller(), c.Stats().ControllerEpoch
				for p := range int32(3) {
					require.NoError(t, all(c, at("orders", p), "a").Err)
				}
				mend := cut(c, former)
				begin := time.Now()
				for p := range int32(3) {
					if c.Leader("orders", p) != former {
						require.NoError(t, all(c, at("orders", p), "b").Err)
						require.NotContains(t, c.Status("orders", p).ISR, former)
					}
				}
				require.Equal(t, c.cfg.SessionTimeout, time.Since(begin))
				require.NotEqual(t, former, c.Controller())
				require.Equal(t, epoch+1, c.Stats().ControllerEpoch, "it has moved once")
				// Leaders are balanced five minutes after the session, which is later.
				time.Sleep(4 * time.Minute)
				require.Equal(t, epoch+1, c.Stats().ControllerEpoch)
				mend()
				for p := range int32(3) {
					inSync(t, c, at("orders", p), 3)
					require.NoError(t, all(c, at("orders", p), "c").Err)
				}
				require.Equal(t, epoch+1, c.Stats().ControllerEpoch)
			})
		})
	}
}

// A leader that is cut off alone does not take the controller's role from the majority. Two
// brokers do not take the role from each other.
func TestControllerThatReachesAMajorityStays(t *testing.T) {
	for name, brokers := range map[string]int{"one of two": 2, "one of three": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ds := newDisks(brokers)
				c := openWith(t, ds.config())
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{ReplicationFactor: brokers}))
				controller, epoch := c.Controller(), c.Stats().ControllerEpoch
				alone := controller%int32(brokers) + 1
				require.NoError(t, c.TransferLeader(t.Context(), at("orders", 0), alone))
				require.NoError(t, all(c, at("orders", 0), "a").Err)
				var pairs [][2]int32
				for id := range int32(brokers) {
					if id+1 != alone {
						pairs = append(pairs, [2]int32{alone, id + 1})
					}
				}
				mend := cutBetween(c, pairs...)
				under := begin(c, at("orders", 0), "b")
				time.Sleep(2 * time.Minute)
				require.Equal(t, controller, c.Controller())
				require.Equal(t, epoch, c.Stats().ControllerEpoch)
				if brokers == 2 {
					require.Len(t, c.Brokers(), 2, "neither has a majority")
				} else {
					require.Len(t, c.Brokers(), 2, "without the one that is cut off")
				}
				mend()
				if r := <-under; brokers == 2 {
					require.NoError(t, r.Err)
				} else {
					require.ErrorIs(t, r.Err, partition.ErrNotLeaderAfterAppend)
				}
				inSync(t, c, at("orders", 0), brokers)
				require.Equal(t, controller, c.Controller())
			})
		})
	}
}

// The leader reaches all brokers except the controller. The broker that reaches both takes the
// role.
func TestControllerThatALeaderCannotReachGivesWayToWhoReachesBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 1)
		controller := c.Controller()
		leader, third := controller%3+1, (controller+1)%3+1
		require.NoError(t, c.TransferLeader(t.Context(), at("orders", 0), leader))
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		defer cutBetween(c, [2]int32{controller, leader})()
		require.NoError(t, all(c, at("orders", 0), "b").Err)
		require.Equal(t, third, c.Controller())
		require.Len(t, c.Brokers(), 3, "one cut costs nobody")
		require.NotContains(t, c.Status("orders", 0).ISR, controller)
	})
}

// A broker that was cut off returns, and the copy of another one fails in the change that
// registers it. Only the other broker is lost.
func TestBrokerThatComesBackServesAlthoughAnotherFailsMeanwhile(t *testing.T) {
	slow := vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: 25 * time.Millisecond}
	hung := vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: 5 * time.Minute}
	for name, end := range map[string]func(c *Cluster, d *vfs.MemFS, id int32) error{
		"killed": func(c *Cluster, _ *vfs.MemFS, id int32) error { return c.KillBroker(id) },
		"its disk hangs": func(_ *Cluster, d *vfs.MemFS, id int32) error {
			d.Inject(hung)
			return nil
		},
	} {
		for ms := 0; ms <= 80; ms += 10 {
			t.Run(fmt.Sprintf("%s %d ms later", name, ms), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ds := newDisks(4)
					c := openWith(t, ds.config())
					replicated(t, c, "orders", 4)
					gone := c.Controller()
					var fast []func()
					for _, d := range ds {
						fast = append(fast, d.Inject(slow))
					}
					mend := cutBetween(c, [2]int32{4, 1}, [2]int32{4, 2}, [2]int32{4, 3})
					time.Sleep(c.cfg.SessionTimeout + time.Second)
					require.Equal(t, []int32{1, 2, 3}, c.Brokers())
					mend()
					time.Sleep(time.Duration(ms) * time.Millisecond)
					fast[gone-1]()
					require.NoError(t, end(c, ds[gone-1], gone))
					time.Sleep(time.Minute)
					require.Equal(t, without([]int32{1, 2, 3, 4}, gone), c.Brokers())
				})
			})
		}
	}
}
