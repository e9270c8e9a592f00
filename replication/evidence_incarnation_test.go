package replication

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// replaceTree replaces a directory of to, with all its subdirectories, by the directory of from.
func replaceTree(t *testing.T, from, to *vfs.MemFS, root string) {
	t.Helper()
	require.NoError(t, putTree(from, to, root, root))
}

// An older copy of the leader's whole directory is in its place, and another broker has newer
// records. The replicas in the copy are made again, also if the other broker is away at first.
func TestOldCopyOfABrokersDirectoryDoesNotLead(t *testing.T) {
	for how, end := range evidenceEnds {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, other away: %v", how, away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, ds := openThree(t)
					require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 3}}}))
					for range 5 {
						require.NoError(t, all(c, at("orders", 0), "a").Err)
					}
					require.NoError(t, c.Close())
					old := ds.kill()
					c = openWith(t, ds.config())
					inSync(t, c, at("orders", 0), 2)
					for range 5 {
						require.NoError(t, all(c, at("orders", 0), "a").Err)
					}
					ds = end(t, c, ds)
					replaceTree(t, old[0], ds[0], "data/broker-1")
					cfg := ds.config()
					other := cfg.BrokerSpecs[3]
					if away {
						cfg.Brokers = 2
						delete(cfg.BrokerSpecs, 3)
					}
					c = openWith(t, cfg)
					require.NotEqualValues(t, 1, c.Leader("orders", 0))
					if away {
						_, err := c.AddBroker(t.Context(), 3, other)
						require.NoError(t, err)
					}
					time.Sleep(time.Minute)
					require.Len(t, values(t, c, at("orders", 0)), 10)
					inSync(t, c, at("orders", 0), 2)
					require.Zero(t, c.Stats().RecordsLost)

					// From now on the older copy is the broker's directory.
					require.NoError(t, c.TransferLeader(t.Context(), at("orders", 0), 1))
					require.NoError(t, all(c, at("orders", 0), "b").Err)
					require.NoError(t, c.Close())
					c = openWith(t, ds.config())
					require.EqualValues(t, 1, c.Leader("orders", 0))
					time.Sleep(time.Minute)
					require.Len(t, values(t, c, at("orders", 0)), 11)
				})
			})
		}
	}
}

// An older copy of a broker's directory is refused if the broker had the only in-sync replica.
func TestOldCopyOfABrokersDirectoryIsRefusedIfNoOtherHasAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		require.NoError(t, c.CreateTopic(t.Context(), "single", topic.Config{Assignment: [][]int32{{1}}}))
		require.NoError(t, all(c, at("single", 0), "a").Err)
		require.NoError(t, c.Close())
		old := ds.kill()
		c = openWith(t, ds.config())
		require.NoError(t, all(c, at("single", 0), "b").Err)
		require.NoError(t, c.Close())
		right := ds.kill()
		replaceTree(t, old[0], ds[0], "data/broker-1")
		for range 2 {
			_, err := Open(ds.config())
			requireDirectoryError(t, err, ErrDirectoryWentBack, "put the newer copy back")
			require.ErrorContains(t, err, "data/broker-1")
		}
		before := ds.kill()
		// StartBroker in a running cluster refuses it as well.
		away := ds.config()
		away.Brokers = 3
		require.NoError(t, ds[0].RemoveAll("data/broker-1"))
		c = openWith(t, away)
		replaceTree(t, before[0], ds[0], "data/broker-1")
		requireDirectoryError(t, c.StartBroker(t.Context(), 1), ErrDirectoryWentBack, "put the newer copy back")
		replaceTree(t, right[0], ds[0], "data/broker-1")
		require.NoError(t, c.StartBroker(t.Context(), 1))
		require.Equal(t, []string{"a", "b"}, values(t, c, at("single", 0)))
		require.NoError(t, c.Close())

		// Without the evidence file the directory is accepted as it is.
		replaceTree(t, old[0], ds[0], "data/broker-1")
		require.NoError(t, ds[0].Remove("data/broker-1/"+evidenceFile))
		c = openWith(t, ds.config())
		require.Equal(t, []string{"a"}, values(t, c, at("single", 0)))
	})
}

// Power fails before each change of the file systems during a start, and the cluster is opened
// once more. The directory of the last incarnation is never taken for an old copy.
func TestDirectoryOfTheLastIncarnationIsNoOldCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		require.NoError(t, c.CreateTopic(t.Context(), "single", topic.Config{Assignment: [][]int32{{1}}}))
		require.NoError(t, all(c, at("single", 0), "a").Err)
		ds = ds.kill()
		require.NoError(t, c.Close())
		var cuts []disks
		var mu sync.Mutex
		again := ds.kill()
		for _, d := range again {
			defer d.Observe(vfs.Observer{Before: func(e vfs.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Op&(vfs.OpChange|vfs.OpSync|vfs.OpSyncDir) == 0 {
					return
				}
				var cut disks
				for j, d := range again {
					cut = append(cut, d.Crash(uint64(len(cuts)+j)))
				}
				cuts = append(cuts, cut)
			}})()
		}
		c, err := Open(again.config())
		require.NoError(t, err)
		time.Sleep(2 * defaultHighWatermarkInterval)
		require.NoError(t, c.Close())
		require.Greater(t, len(cuts), 50)
		for i, cut := range cuts {
			c := openWith(t, cut.config())
			require.Equal(t, []string{"a"}, values(t, c, at("single", 0)), "cut off before call %d", i)
			require.NoError(t, c.Close())
		}
	})
}

// The only broker of a cluster needs no line of its incarnation, until another broker joins.
func TestOldCopyOfTheFirstBrokerIsNoticedOnceThereIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		cfg := Config{Dir: "data", FS: fsys}
		c := openWith(t, cfg)
		create(t, c, "orders", 1)
		produce(t, c, at("orders", 0), "a")
		require.NoError(t, c.Close())
		c = openWith(t, cfg)
		_, err := c.AddBroker(t.Context(), 0, BrokerSpec{})
		require.NoError(t, err)
		killed := fsys.Kill()
		produce(t, c, at("orders", 0), "b")
		require.NoError(t, c.Close())
		old := fsys.Kill()
		c = openWith(t, cfg)
		produce(t, c, at("orders", 0), "c")
		require.NoError(t, c.Close())
		replaceTree(t, old, fsys, "data/broker-1")
		_, err = Open(cfg)
		requireDirectoryError(t, err, ErrDirectoryWentBack, "put the newer copy back")

		cfg.FS = killed
		c = openWith(t, cfg)
		require.Equal(t, []string{"a"}, values(t, c, at("orders", 0)))
	})
}

// A broker that cannot write its evidence file does not serve. Otherwise its directory would pass
// for an older copy.
func TestBrokerThatCannotNoteItsIncarnationDoesNotServe(t *testing.T) {
	for broken := range int32(3) {
		synctest.Test(t, func(t *testing.T) {
			c, ds := openThree(t)
			replicated(t, c, "orders", 1)
			require.NoError(t, all(c, at("orders", 0), "a").Err)
			require.NoError(t, c.Close())
			mend := ds[broken].Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpSync, Pattern: evidenceFile, Times: vfs.Always, Err: errDisk})
			c = openWith(t, ds.config())
			require.NotContains(t, c.Brokers(), broken+1)
			require.NoError(t, all(c, at("orders", 0), "b").Err)
			require.Error(t, c.StartBroker(t.Context(), broken+1))
			mend()
			require.NoError(t, c.StartBroker(t.Context(), broken+1))
			inSync(t, c, at("orders", 0), 3)
			require.Zero(t, c.Stats().RecordsLost)
		})
	}
}
