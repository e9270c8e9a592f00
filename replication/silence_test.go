package replication

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// hang makes the calls of a broker's disk take an hour, until the returned function is called.
// This is longer than any wait.
func (ds disks) hang(broker int32, ops vfs.Op, pattern string) (mend func()) {
	return ds[broker-1].Inject(vfs.Fault{Ops: ops, Pattern: pattern, Times: vfs.Always, Delay: time.Hour})
}

// hangs are the ways in which a disk hangs.
var hangs = map[string]vfs.Op{"all": 0, "sync": vfs.OpSync, "write": vfs.OpWrite}

// A follower whose disk hangs leaves the in-sync set like a dead one, although the controller
// cannot write this to its disk. Its broker is fenced, and may be started when the disk works.
func TestFollowerWhoseDiskHangsHoldsUpNobody(t *testing.T) {
	for how, ops := range hangs {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openThree(t)
				replicated(t, c, "orders", 1)
				require.NoError(t, all(c, at("orders", 0), "a").Err)
				hung := c.Leader("orders", 0)%3 + 1
				mend := ds.hang(hung, ops, "")
				begin := time.Now()
				require.NoError(t, all(c, at("orders", 0), "b").Err)
				require.LessOrEqual(t, time.Since(begin), 55*time.Second, "half as much again as the lag, and the silence")
				require.NotContains(t, c.Status("orders", 0).ISR, hung)
				begin = time.Now()
				require.NoError(t, all(c, at("orders", 0), "c").Err)
				require.Equal(t, begin, time.Now(), "nobody waits for it any more")
				require.NoError(t, c.CreateTopic(t.Context(), "more", topic.Config{}))
				require.Equal(t, begin, time.Now())
				mend()
				downThen(t, c, hung)
				inSync(t, c, at("orders", 0), 3)
				require.Equal(t, []string{"a", "b", "c"}, values(t, c, at("orders", 0)))
			})
		})
	}
}

// downThen waits until a broker's incarnation has ended, and starts the broker.
func downThen(t *testing.T, c *Cluster, id int32) {
	t.Helper()
	synctest.Wait()
	require.NotContains(t, c.serving(), id)
	require.NoError(t, c.StartBroker(t.Context(), id))
}

// The disk hangs of a broker that leads and is the controller.
func TestControllerWhoseDiskHangsIsReplaced(t *testing.T) {
	for how, ops := range hangs {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openThree(t)
				replicated(t, c, "orders", 3)
				for p := range int32(3) {
					require.NoError(t, all(c, at("orders", p), "a").Err)
				}
				hung := c.Controller()
				mend := ds.hang(hung, ops, "")
				begin := time.Now()
				require.NoError(t, c.CreateTopic(t.Context(), "more", topic.Config{}))
				require.Equal(t, 9*time.Second, time.Since(begin))
				require.NotEqual(t, hung, c.Controller())
				for p := range int32(3) {
					require.NotEqual(t, hung, c.Leader("orders", p))
					require.NoError(t, all(c, at("orders", p), "b").Err)
					require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", p)))
				}
				mend()
				downThen(t, c, hung)
			})
		})
	}
}

// If the disks of all brokers stall, changes wait for them.
func TestStallOfAllDisksCostsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		for id := range int32(3) {
			defer ds[id].Inject(vfs.Fault{Ops: vfs.OpSync, Delay: time.Minute + time.Duration(id)*time.Second})()
		}
		begin := time.Now()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		require.Equal(t, time.Minute+2*time.Second, time.Since(begin))
		require.Len(t, c.serving(), 3)
	})
}

// The only other copy is half of the set, which may continue.
func TestOneOfTwoDisksHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(2)
		c := openWith(t, ds.config())
		defer ds.hang(2, 0, "")()
		begin := time.Now()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		require.Equal(t, 9*time.Second, time.Since(begin))
		require.Len(t, c.serving(), 1)
	})
}

// A broker that cannot apply the metadata is fenced, and delays no other change.
func TestBrokerThatDoesNotFollowIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		hung := c.Leader("orders", 0)%3 + 1
		defer ds.hang(hung, vfs.OpRename, "orders-0*")()
		begin := time.Now()
		require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		require.Equal(t, 9*time.Second, time.Since(begin))
		synctest.Wait()
		require.NotContains(t, c.serving(), hung)
		require.True(t, c.isFenced(hung))
	})
}

// Only the partitions of the broker with the hanging disk are written. So its followers do not
// lag, and the metadata does not change. The hang is noticed all the same. The waiting append ends
// with an error, and another broker leads.
func TestLeaderWhoseDiskHangsIsReplaced(t *testing.T) {
	for how, ops := range hangs {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openThree(t)
				replicated(t, c, "orders", 3)
				for p := range int32(3) {
					require.NoError(t, all(c, at("orders", p), "a").Err)
				}
				p := int32(0)
				for c.Leader("orders", p) == c.Controller() {
					p++
				}
				hung := c.Leader("orders", p)
				defer ds.hang(hung, ops, "")()
				begin := time.Now()
				err := all(c, at("orders", p), "b").Err
				require.True(t, errors.Is(err, ErrNotLeader) || errors.Is(err, partition.ErrNotLeaderAfterAppend), "%v", err)
				require.LessOrEqual(t, time.Since(begin), 40*time.Second, "two looks, and the silence")
				synctest.Wait()
				require.NotEqual(t, hung, c.Leader("orders", p))
				require.NoError(t, all(c, at("orders", p), "c").Err)
				require.Equal(t, "a", values(t, c, at("orders", p))[0])
			})
		})
	}
}

// leaderThatTakesNothing creates orders-0, with one acknowledged record. The log of its leader is
// read-only since a sync failed.
func leaderThatTakesNothing(t *testing.T) (c *Cluster, ds disks, leader int32) {
	t.Helper()
	c, ds = openThree(t)
	replicated(t, c, "orders", 1)
	tp := at("orders", 0)
	require.NoError(t, all(c, tp, "a").Err)
	leader = c.Leader("orders", 0)
	ds[leader-1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
	require.Error(t, all(c, tp, "b").Err)
	return c, ds, leader
}

// brokersAreLookedAt returns when every leader has checked its followers and its own disk once
// more. This takes a little over half of replica.lag.time.max.ms, in virtual time.
func brokersAreLookedAt() {
	time.Sleep(16 * time.Second)
	synctest.Wait()
}

// A leader whose log is read-only after a failed sync gives way at the next check, if other
// replicas are in sync.
func TestLeaderWhoseLogIsReadOnlyGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, failed := leaderThatTakesNothing(t)
		tp := at("orders", 0)
		brokersAreLookedAt()
		require.NotEqual(t, failed, c.Leader("orders", 0))
		require.NoError(t, all(c, tp, "c").Err)
		downThen(t, c, failed)
		inSync(t, c, tp, 3)
		require.NoError(t, all(c, tp, "d").Err)
	})
}

// The only in-sync replica stays the leader if no other is eligible, because the minimum was never
// missed. Its records can be read.
func TestOnlyReplicaInSyncWhoseLogIsReadOnlyLeadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(3)
		cfg := ds.config()
		cfg.SessionTimeout = 1000 * time.Hour // a cut fences no broker
		c, err := Open(cfg)
		require.NoError(t, err)
		defer func() { require.ErrorIs(t, c.Close(), syscall.EIO) }()
		replicated(t, c, "orders", 1, "min.insync.replicas", "1")
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a").Err)
		failed := c.Leader("orders", 0)
		for id := range int32(3) {
			if id+1 != failed {
				c.Network().Cut(NetworkPath{From: failed, To: id + 1})
			}
		}
		require.NoError(t, all(c, tp, "b").Err, "when the others have left the set")
		inSync(t, c, tp, 1)
		ds[failed-1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
		require.Error(t, tryAcks(c, tp, record.AcksLeader, "c").Err)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, failed, c.Leader("orders", 0))
		require.Equal(t, []string{"a", "b"}, values(t, c, tp))
	})
}

// A leader that cannot be fenced, because the disks of the others fail as well, is checked again.
func TestLeaderWhoseLogIsReadOnlyGivesWayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds, failed := leaderThatTakesNothing(t)
		tp := at("orders", 0)
		var mend []func()
		for id := range int32(3) {
			if id+1 != failed {
				mend = append(mend, ds.fail(int(id)+1))
			}
		}
		brokersAreLookedAt()
		require.Equal(t, failed, c.Leader("orders", 0), "nobody else could")
		for _, m := range mend {
			m()
		}
		brokersAreLookedAt()
		require.NotEqual(t, failed, c.Leader("orders", 0))
		require.NoError(t, all(c, tp, "c").Err)
	})
}

// No other replica is in sync, but an eligible one has the acknowledged records. It replaces a
// leader whose log is read-only.
func TestLeaderAloneWhoseLogIsReadOnlyGivesWayToTheEligible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThreePatient(t)
		replicated(t, c, "orders", 1)
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a").Err)
		failed := c.Leader("orders", 0)
		mend := isolate(c, failed)
		require.Error(t, all(c, tp, "b").Err, "the others do not get it, and leave the set")
		require.NoError(t, c.WaitISR(t.Context(), tp, failed))
		require.NotEmpty(t, c.Status("orders", 0).Eligible)
		ds[failed-1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
		require.Error(t, tryAcks(c, tp, record.AcksLeader, "c").Err)
		brokersAreLookedAt()
		require.NotEqual(t, failed, c.Leader("orders", 0))
		mend()
		require.NoError(t, all(c, tp, "d").Err)
		require.Equal(t, []string{"a", "d"}, values(t, c, tp))
	})
}
