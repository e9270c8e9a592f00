package replication

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// takeAway removes a directory from a disk, and returns a function that puts it back unchanged.
func takeAway(t *testing.T, disk *vfs.MemFS, dir string) (putBack func()) {
	t.Helper()
	files := map[string][]byte{}
	entries, err := disk.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		p, err := vfs.ReadFile(disk, filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = p
	}
	require.NoError(t, disk.RemoveAll(dir))
	return func() {
		t.Helper()
		require.NoError(t, disk.RemoveAll(dir))
		require.NoError(t, disk.MkdirAll(dir, 0o755))
		for name, p := range files {
			require.NoError(t, vfs.WriteFile(disk, filepath.Join(dir, name), p))
		}
	}
}

// dirOf returns the directory of orders-0 on a broker.
func dirOf(broker int) string { return filepath.Join(brokerRoot(broker), "orders-0") }

func brokerRoot(broker int) string { return fmt.Sprintf("data/broker-%d", broker) }

// openWithOrders opens a cluster in which each broker has a replica of orders-0 with 5 records.
func openWithOrders(t *testing.T, brokers int) (*Cluster, disks) {
	t.Helper()
	ds := newDisks(brokers)
	c := openWith(t, ds.config())
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{ReplicationFactor: brokers}))
	for range 5 {
		require.NoError(t, all(c, at("orders", 0), "a").Err)
	}
	inSync(t, c, at("orders", 0), brokers)
	return c, ds
}

// requireAway checks that the partition is offline, and that its error names the directory on each
// of these brokers.
func requireAway(t *testing.T, c *Cluster, brokers ...int) {
	t.Helper()
	_, reads := tryValues(t.Context(), c, at("orders", 0))
	for _, err := range []error{c.Status("orders", 0).Err, reads, tryProduce(c, at("orders", 0), "x").Err} {
		require.True(t, errors.Is(err, ErrRecordsMissing) || errors.Is(err, log.ErrMissingSegment), "%v", err)
		for _, id := range brokers {
			require.ErrorContains(t, err, fmt.Sprintf("broker %d", id))
			require.ErrorContains(t, err, dirOf(id))
		}
		require.Regexp(t, "put it back|restore its files", err)
	}
}

// requireOrders checks that all replicas of orders-0 have n records, without any loss.
func requireOrders(t *testing.T, c *Cluster, brokers, n int) {
	t.Helper()
	time.Sleep(time.Minute) // records are readable when the followers have fetched
	require.Len(t, values(t, c, at("orders", 0)), n)
	inSync(t, c, at("orders", 0), brokers)
	for id := range brokers {
		require.EqualValues(t, n, c.Status("orders", 0).Ends[int32(id+1)])
	}
	require.Zero(t, c.Stats().RecordsLost)
	require.Zero(t, c.Stats().UncleanElections)
}

// The directories of all replicas are away during one or two runs of the cluster, and are then put
// back unchanged. The partition has all its records again. Meanwhile its error names all
// directories.
func TestReplicasWhoseDirectoriesWereAwayLeadAgain(t *testing.T) {
	for how, end := range evidenceEnds {
		for _, brokers := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%d brokers, %s", brokers, how), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, ds := openWithOrders(t, brokers)
					ds = end(t, c, ds)
					var back []func()
					var ids []int
					for i := range brokers {
						back = append(back, takeAway(t, ds[i], dirOf(i+1)))
						ids = append(ids, i+1)
					}
					for range 2 {
						c = openWith(t, ds.config())
						requireAway(t, c, ids...)
						require.NoError(t, c.Close())
					}
					for _, put := range back {
						put()
					}
					c = openWith(t, ds.config())
					requireOrders(t, c, brokers, 5)
					require.NoError(t, all(c, at("orders", 0), "b").Err)
				})
			})
		}
	}
}

// One directory of an in-sync replica is enough, whether the directories were away or empty.
func TestOneDirectoryOfManyThatWereAwayIsEnough(t *testing.T) {
	for how, end := range evidenceEnds {
		for one := range 6 {
			one, empty := one%3, one >= 3
			t.Run(fmt.Sprintf("%d, %s, empty %v", one+1, how, empty), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, ds := openWithOrders(t, 3)
					ds = end(t, c, ds)
					var back []func()
					for i := range 3 {
						back = append(back, takeAway(t, ds[i], dirOf(i+1)))
						if empty {
							require.NoError(t, ds[i].MkdirAll(dirOf(i+1), 0o755))
						}
					}
					c = openWith(t, ds.config())
					requireAway(t, c, 1, 2, 3)
					require.NoError(t, c.StopBroker(t.Context(), int32(one+1)))
					back[one]()
					require.NoError(t, c.StartBroker(t.Context(), int32(one+1)))
					requireOrders(t, c, 3, 5)
				})
			})
		}
	}
}

// The directories are taken away one after the other, each while its broker is down. The last
// leader has the records that were written meanwhile, and leads again when its directory is back.
// The others do not.
func TestDirectoriesAreTakenAwayOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(4)
		c := openWith(t, ds.config())
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{ReplicationFactor: 3}))
		for range 5 {
			require.NoError(t, all(c, at("orders", 0), "a").Err)
		}
		inSync(t, c, at("orders", 0), 3)
		on := c.Status("orders", 0).Replicas
		back := map[int32]func(){}
		stop := func(id int32) { require.NoError(t, c.StopBroker(t.Context(), id)) }
		start := func(id int32) { require.NoError(t, c.StartBroker(t.Context(), id)) }
		lose := func(id int32) { back[id] = takeAway(t, ds[id-1], dirOf(int(id))) }
		for i, id := range on {
			stop(id)
			lose(id)
			if i < 2 {
				require.NoError(t, all(c, at("orders", 0), "b").Err)
			}
		}
		for _, id := range on {
			start(id)
		}
		requireAway(t, c, int(on[2]))
		for _, id := range on[:2] {
			stop(id)
			back[id]()
			start(id)
		}
		time.Sleep(time.Minute)
		require.EqualValues(t, -1, c.Leader("orders", 0))
		requireAway(t, c, int(on[2]))
		stop(on[2])
		back[on[2]]()
		start(on[2])
		time.Sleep(time.Minute)
		require.Len(t, values(t, c, at("orders", 0)), 7)
		inSync(t, c, at("orders", 0), 3)
		require.Zero(t, c.Stats().UncleanElections)
	})
}

// The records in directories that stay away can be given up.
func TestUncleanElectionGivesUpDirectoriesThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openWithOrders(t, 2)
		require.NoError(t, c.Close())
		for i := range 2 {
			takeAway(t, ds[i], dirOf(i+1))
		}
		c = openWith(t, ds.config())
		requireAway(t, c, 1, 2)
		require.NoError(t, errors.Join(c.ElectLeaders(t.Context(), UncleanElection, at("orders", 0))...))
		require.NoError(t, all(c, at("orders", 0), "b").Err)
		inSync(t, c, at("orders", 0), 2)
		require.Equal(t, []string{"b"}, values(t, c, at("orders", 0)))
		require.NoError(t, c.Close())
		c = openWith(t, ds.config())
		require.Equal(t, []string{"b"}, values(t, c, at("orders", 0)))
	})
}

// The start of a log moved, and this was not noted before a kill. The log is complete also after a
// run in which its directory was away.
func TestDirectoryWhoseStartMovedBeforeAKillIsWholeAfterItWasAway(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			c, ds := openWithOrders(t, brokers)
			time.Sleep(2 * defaultHighWatermarkInterval)
			_, err := c.DeleteRecords(t.Context(), map[tp]int64{at("orders", 0): 3})
			require.NoError(t, err)
			ds = ds.kill()
			var back []func()
			for i := range brokers {
				back = append(back, takeAway(t, ds[i], dirOf(i+1)))
			}
			require.NoError(t, openWith(t, ds.config()).Close())
			for _, put := range back {
				put()
			}
			c = openWith(t, ds.config())
			time.Sleep(time.Minute)
			require.NoError(t, c.Status("orders", 0).Err)
			require.EqualValues(t, 3, c.Status("orders", 0).LogStartOffset)
		})
	}
}
