package replication

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestRecordsBelongToTheirTopicOnly(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 2)
	create(t, c, "payments", 2)
	for i := range int32(2) {
		produce(t, c, at("orders", i), fmt.Sprint("order ", i))
		produce(t, c, at("payments", i), fmt.Sprint("payment ", i), "another")
	}
	for i := range int32(2) {
		require.Equal(t, []string{fmt.Sprint("order ", i)}, values(t, c, at("orders", i)))
		require.Equal(t, []string{fmt.Sprint("payment ", i), "another"}, values(t, c, at("payments", i)))
	}
	require.NoError(t, c.DeleteTopic(t.Context(), "payments"))
	require.Equal(t, []string{"order 1"}, values(t, c, at("orders", 1)))
	require.Equal(t, []string{"orders"}, names(t, c))
}

func TestEachTopicHasItsOwnNumberOfPartitions(t *testing.T) {
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data", Defaults: topic.Config{Partitions: 4}})
	want := map[string]int{"one": 1, "six": 6, "default": 4}
	create(t, c, "one", 1)
	create(t, c, "six", 6)
	create(t, c, "default", 0)
	for _, c := range []*Cluster{c, open(t, fsys.Kill())} {
		for name, n := range want {
			info, err := c.Topic(t.Context(), name)
			require.NoError(t, err)
			require.Len(t, info.Partitions, n, name)
			for i := range int32(n) {
				produce(t, c, at(name, i), "x")
			}
			require.ErrorIs(t, tryProduce(c, at(name, int32(n)), "x").Err, ErrUnknownTopic, name)
		}
	}
}

// The caller does not place partitions. As soon as they exist, each has replicas on brokers of the
// cluster, exactly one of which leads.
func TestPartitionsArePlacedByThemselvesWithOneLeaderEach(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 3)
	require.NoError(t, c.AddPartitions(t.Context(), "orders", 5))
	for _, c := range []*Cluster{c, open(t, fsys.Kill())} {
		md, err := c.Metadata(t.Context(), "orders")
		require.NoError(t, err)
		require.Len(t, md.Topics["orders"].Partitions, 5)
		for i, p := range md.Topics["orders"].Partitions {
			index := int32(i)
			require.Len(t, p.Replicas, 1)
			require.Subset(t, c.Brokers(), p.Replicas, "on a broker that exists")
			require.Equal(t, p.Replicas, p.ISR)
			require.True(t, slices.Contains(p.Replicas, p.Leader), "partition %d is led by %d of %v", i, p.Leader, p.Replicas)
			require.Equal(t, p.Leader, c.Leader("orders", index))
			require.Equal(t, p.Leader, c.Status("orders", index).Leader)
			res := produce(t, c, at("orders", index), "x")
			require.Equal(t, p.LeaderEpoch, res.LeaderEpoch, "written by the leader that the metadata names")
			ask := func(epoch int32) error {
				got, err := c.Fetch(t.Context(), &partition.FetchRequest{Partitions: []partition.FetchPartition{{
					TopicPartition: at("orders", index), CurrentLeaderEpoch: epoch, LastFetchedEpoch: -1,
				}}})
				require.NoError(t, err)
				return got.Partitions[0].Err
			}
			require.NoError(t, ask(p.LeaderEpoch))
			require.ErrorIs(t, ask(p.LeaderEpoch+1), partition.ErrUnknownLeaderEpoch, "nobody leads in another epoch")
		}
	}
}

// The decisions of the cluster survive any crash: topics, numbers of partitions, settings of
// topics and brokers, and deletions.
func TestWhatTheClusterDecidedIsThereAfterKillAndAfterPowerLoss(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	lost := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
	check := func(what string, look func(c *Cluster)) {
		t.Helper()
		for _, disk := range []vfs.FS{fsys.Kill(), fsys.CrashWith(lost)} {
			again, err := Open(Config{FS: disk, Dir: "data"})
			require.NoError(t, err, what)
			look(again)
			require.Equal(t, c.ClusterID(), again.ClusterID(), what)
			require.Contains(t, again.Brokers(), again.Controller(), what)
			require.NoError(t, again.Close(), what)
		}
	}
	info := func(c *Cluster, name string) topic.Info {
		i, err := c.Topic(t.Context(), name)
		require.NoError(t, err)
		return i
	}
	create(t, c, "orders", 3, "retention.ms", "60000")
	create(t, c, "gone", 1)
	id := info(c, "orders").ID
	check("created", func(c *Cluster) {
		require.Equal(t, []string{"gone", "orders"}, names(t, c))
		require.Equal(t, id, info(c, "orders").ID)
		require.Len(t, info(c, "orders").Partitions, 3)
		require.Equal(t, map[string]string{"retention.ms": "60000"}, info(c, "orders").Settings.Explicit())
	})
	require.NoError(t, c.AddPartitions(t.Context(), "orders", 5))
	check("grown", func(c *Cluster) { require.Len(t, info(c, "orders").Partitions, 5) })
	require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("retention.ms", "70000", "segment.ms", "5000")))
	check("altered", func(c *Cluster) {
		require.Equal(t, map[string]string{"retention.ms": "70000", "segment.ms": "5000"}, info(c, "orders").Settings.Explicit())
	})
	require.NoError(t, c.AlterBrokerConfig(t.Context(), AllBrokers, ConfigChange{Key: "log.retention.ms", Value: "80000"}))
	check("broker altered", func(c *Cluster) {
		v, _ := info(c, "gone").Settings.Value("retention.ms")
		require.Equal(t, "80000", v)
	})
	require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
	check("deleted", func(c *Cluster) { require.Equal(t, []string{"orders"}, names(t, c)) })
}
