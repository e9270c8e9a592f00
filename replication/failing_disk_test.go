package replication

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// failures are ways in which a disk fails permanently, or until it is mended, without hanging.
var failures = map[string]vfs.Fault{
	"full":   {Ops: vfs.OpWrite | vfs.OpAllocate | vfs.OpCreate, Err: syscall.ENOSPC},
	"writes": {Ops: vfs.OpWrite, Err: syscall.EIO},
	"reads":  {Ops: vfs.OpRead, Err: syscall.EIO},
	"all":    {Ops: vfs.OpAny, Err: syscall.EIO},
}

// fails makes all such calls of a disk fail until mend is called.
func fails(disk *vfs.MemFS, f vfs.Fault) (mend func()) {
	f.Times = vfs.Always
	return disk.Inject(f)
}

// sends appends repeatedly, as a producer does, until an append is acknowledged or patience is
// exhausted.
func sends(t *testing.T, c *Cluster, tp record.TopicPartition, value string, patience time.Duration) (ok bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		if all(c, tp, value).Err == nil {
			return true
		}
	}
	return false
}

// A leader whose disk fails every request, while requests continue, gives way to an in-sync
// replica. It does so whether or not the partition has files yet.
func TestLeaderWhoseDiskFailsGivesWay(t *testing.T) {
	for how, failure := range failures {
		for _, written := range []bool{false, true} {
			t.Run(how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, ds := openThree(t)
					replicated(t, c, "orders", 1)
					var want []string
					if written {
						require.NoError(t, all(c, at("orders", 0), "a").Err)
						want = append(want, "a")
					}
					failed := c.Leader("orders", 0)
					mend := fails(ds[failed-1], failure)
					require.True(t, sends(t, c, at("orders", 0), "b", 3*time.Minute), "written before: %v", written)
					mend()
					require.Subset(t, values(t, c, at("orders", 0)), append(want, "b"))
				})
			})
		}
	}
}

// A leader that accepts records and cannot be read gives way as well, because its followers get
// nothing.
func TestLeaderWhoseDiskCannotBeReadGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		failed := c.Leader("orders", 0)
		defer fails(ds[failed-1], failures["reads"])()
		require.True(t, sends(t, c, at("orders", 0), "b", 3*time.Minute))
		require.NotEqual(t, failed, c.Leader("orders", 0))
	})
}

// When the disks of all brokers fail, no broker is fenced, and all continue when their disks are
// mended. If only the creation of files fails, the metadata's existing files can still be written,
// and a change could fence brokers.
func TestFullDiskOfAllBrokersCostsNone(t *testing.T) {
	for _, failure := range []vfs.Fault{failures["full"], {Ops: vfs.OpCreate, Err: syscall.ENOSPC}} {
		synctest.Test(t, func(t *testing.T) {
			c, ds := openThree(t)
			replicated(t, c, "orders", 3)
			tp := at("orders", 0)
			for c.Leader("orders", tp.Partition) == c.Controller() { // its role would move first
				tp.Partition++
			}
			var mend []func()
			for _, disk := range ds {
				mend = append(mend, fails(disk, failure))
			}
			require.False(t, sends(t, c, tp, "a", 3*time.Minute))
			time.Sleep(time.Nanosecond) // no disk check runs while only some disks are mended
			synctest.Wait()
			for _, m := range mend {
				m()
			}
			require.True(t, sends(t, c, tp, "b", time.Minute))
			require.Len(t, c.serving(), 3)
			inSync(t, c, tp, 3)
		})
	}
}

// A disk that failed for a moment, and then worked or was not used, fences no broker.
func TestDiskThatFailedForAMomentCostsNobody(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, ds := openThree(t)
			replicated(t, c, "orders", 1)
			require.NoError(t, all(c, at("orders", 0), "a").Err)
			leader := c.Leader("orders", 0)
			for range 5 {
				if again {
					require.NoError(t, all(c, at("orders", 0), "b").Err)
				}
				mend := fails(ds[leader-1], failures["full"])
				require.Error(t, all(c, at("orders", 0), "c").Err)
				mend()
				if again {
					time.Sleep(10 * time.Second)
				} else {
					time.Sleep(40 * time.Second)
				}
			}
			require.Equal(t, leader, c.Leader("orders", 0))
			require.Len(t, c.serving(), 3)
		})
	}
}
