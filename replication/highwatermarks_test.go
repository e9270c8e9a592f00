package replication

import (
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// onThreeOfFour opens four brokers. The first three have replicas of "orders" with five
// acknowledged records. It waits until their high watermark is saved.
func onThreeOfFour(t *testing.T, props ...string) (*Cluster, disks) {
	t.Helper()
	ds := newDisks(4)
	c := openWith(t, ds.config())
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
		Assignment: [][]int32{{1, 2, 3}}, Properties: properties(append([]string{"min.insync.replicas", "2"}, props...)...),
	}))
	for range 5 {
		require.NoError(t, all(c, at("orders", 0), "a").Err)
	}
	time.Sleep(defaultHighWatermarkInterval + time.Second)
	return c, ds
}

// A leader that starts with too few in-sync replicas shows the records known to be committed,
// however its broker ended. Without the saved high watermark it would show nothing until others
// return.
func TestLeaderWithTooFewInSyncShowsWhatWasCommitted(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *Cluster) error{
		"stopped": func(t *testing.T, c *Cluster) error { return c.StopBroker(t.Context(), 1) },
		"killed":  func(_ *testing.T, c *Cluster) error { return c.KillBroker(1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := onThreeOfFour(t)
				for _, id := range []int32{2, 3} {
					require.NoError(t, c.StopBroker(t.Context(), id))
				}
				require.NoError(t, tryAcks(c, at("orders", 0), record.AcksLeader, "not committed").Err)
				require.NoError(t, end(t, c))
				require.NoError(t, c.StartBroker(t.Context(), 1))
				s := c.Status("orders", 0)
				require.EqualValues(t, 1, s.Leader)
				require.EqualValues(t, 6, s.LogEndOffset)
				require.EqualValues(t, 5, s.HighWatermark)
			})
		})
	}
}

// The directory of a replica is removed, on an otherwise unchanged disk. The replica is not taken
// for an unwritten one. It must neither lead with an empty log nor count for acknowledged records.
func TestReplicaWhoseDirectoryWasRemovedDoesNotLead(t *testing.T) {
	t.Run("while the cluster is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, ds := onThreeOfFour(t)
			require.EqualValues(t, 1, c.Leader("orders", 0))
			require.NoError(t, c.Close())
			require.NoError(t, ds[0].RemoveAll("data/broker-1/orders-0"))
			c = openWith(t, ds.config())
			require.NotEqualValues(t, 1, c.Leader("orders", 0))
			require.Len(t, values(t, c, at("orders", 0)), 5)
			inSync(t, c, at("orders", 0), 3)
			require.NoError(t, all(c, at("orders", 0), "b").Err)
			require.Equal(t, map[int32]int64{1: 6, 2: 6, 3: 6}, c.Status("orders", 0).Ends)
			require.Zero(t, c.Stats().UncleanElections)
		})
	})
	t.Run("while its broker is down, the last that was in sync", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, ds := onThreeOfFour(t)
			for _, id := range []int32{3, 2, 1} {
				require.NoError(t, c.StopBroker(t.Context(), id))
			}
			require.NoError(t, ds[0].RemoveAll("data/broker-1/orders-0"))
			require.NoError(t, c.StartBroker(t.Context(), 1))
			require.EqualValues(t, -1, c.Leader("orders", 0), "nothing is left there")
			require.NoError(t, c.StartBroker(t.Context(), 2))
			require.EqualValues(t, 2, c.Leader("orders", 0), "it was eligible")
			require.Len(t, values(t, c, at("orders", 0)), 5)
			require.Zero(t, c.Stats().UncleanElections)
		})
	})
}

// Records that a replica truncates below its own high watermark are counted as lost, also after a
// restart.
func TestRecordsBelowTheOwnHighWatermarkAreCountedWhenTheyAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := onThreeOfFour(t, "min.insync.replicas", "1", "unclean.leader.election.enable", "true")
		for _, id := range []int32{2, 3} {
			require.NoError(t, c.StopBroker(t.Context(), id))
		}
		for range 3 {
			require.NoError(t, all(c, at("orders", 0), "only here").Err)
		}
		time.Sleep(defaultHighWatermarkInterval + time.Second)
		require.NoError(t, c.KillBroker(1))
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.NoError(t, all(c, at("orders", 0), "elsewhere").Err)
		require.EqualValues(t, 1, c.Stats().UncleanElections)
		require.Zero(t, c.Stats().RecordsLost)
		require.NoError(t, c.StartBroker(t.Context(), 1))
		inSync(t, c, at("orders", 0), 2)
		require.EqualValues(t, 3, c.Stats().RecordsLost)
	})
}

// A damaged line of the file is treated as missing.
func TestDamagedHighWatermarksAreNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := onThreeOfFour(t)
		require.NoError(t, c.Close())
		name := filepath.Join("data/broker-1", evidenceFile)
		p, err := vfs.ReadFile(ds[0], name)
		require.NoError(t, err)
		decode := func(p []byte) (e *evidence, damaged int) {
			e = &evidence{found: map[place]note{}, closed: -1}
			damaged, err := e.decode(p)
			require.NoError(t, err)
			return e, damaged
		}
		whole, damaged := decode(p)
		require.Zero(t, damaged)
		require.Equal(t, p, encodeEvidence(whole.metadata, whole.closed, whole.incarnations, whole.found))
		require.Len(t, whole.found, 1)
		for at, n := range whole.found {
			require.Equal(t, note{highWatermark: 5, start: 0, end: 5, epoch: -1, stated: true, exact: true, kept: true}, n, at)
		}
		for bit := range 8 * len(p) {
			q := append([]byte{}, p...)
			q[bit/8] ^= 1 << (bit % 8)
			if e, damaged := decode(q); damaged == 0 {
				// A letter of the hash may change its case.
				require.Equal(t, whole.found, e.found, "bit %d: %q", bit, q)
			}
		}
		p[len(p)-2] ^= 1
		require.NoError(t, vfs.WriteFile(ds[0], name, p))
		c = openWith(t, ds.config())
		inSync(t, c, at("orders", 0), 3)
		synctest.Wait() // the followers, in sync all the time, report their end offsets first
		require.Len(t, values(t, c, at("orders", 0)), 5)
	})
}

// Kafka finds its own file after a broker has stopped in order. Partitions with one replica are
// not in it, because their log alone suffices.
func TestHighWatermarksAreLeftForKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := onThreeOfFour(t)
		create(t, c, "alone", 4)
		for p := range int32(4) {
			produce(t, c, at("alone", p), "x")
		}
		time.Sleep(time.Minute)
		require.NoError(t, c.Close())
		for i := range 3 {
			p, err := vfs.ReadFile(ds[i], filepath.Join("data", "broker-"+string(rune('1'+i)), kafkaHighWatermarkFile))
			require.NoError(t, err)
			require.Equal(t, "0\n1\norders 0 5\n", string(p))
		}
		_, err := ds[3].Stat(filepath.Join("data/broker-4", kafkaHighWatermarkFile))
		require.ErrorIs(t, err, fs.ErrNotExist, "it has partitions with one replica only")
	})
}

// Nothing is written while no high watermark moves.
func TestHighWatermarksThatStandAreNotSavedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ds := onThreeOfFour(t)
		time.Sleep(time.Minute)
		before := ds[0].Count(vfs.OpChange)
		time.Sleep(time.Hour)
		require.Equal(t, before, ds[0].Count(vfs.OpChange))
	})
}
