package replication

import (
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// openBrokers opens a cluster of n brokers on fsys. The caller closes it, if at all.
func openBrokers(t *testing.T, fsys vfs.FS, n int) *Cluster {
	t.Helper()
	c, err := Open(Config{FS: fsys, Dir: "data", Brokers: n})
	require.NoError(t, err)
	return c
}

// leaders returns the leaders of a topic's partitions.
func leaders(t *testing.T, c *Cluster, name string) (ids []int32) {
	t.Helper()
	md, err := c.Metadata(t.Context(), name)
	require.NoError(t, err)
	for _, p := range md.Topics[name].Partitions {
		ids = append(ids, p.Leader)
	}
	return ids
}

func TestPartitionsAreSpreadOverBrokersAndServedFromThere(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "orders", 6)
	require.Equal(t, []int32{1, 2, 3, 1, 2, 3}, leaders(t, c, "orders"))
	require.Equal(t, []int32{1, 2, 3}, c.Brokers())
	for p := range int32(6) {
		produce(t, c, at("orders", p), fmt.Sprint("record of ", p))
		_, err := fsys.Stat(fmt.Sprintf("data/broker-%d/orders-%d/partition.metadata", p%3+1, p))
		require.NoError(t, err, "on the disk of its leader")
	}
	check := func(c *Cluster) {
		t.Helper()
		resp, err := c.Fetch(t.Context(), ask("orders", 6, partition.FetchRequest{}))
		require.NoError(t, err)
		offsets := map[tp]partition.OffsetSpec{}
		for p := range int32(6) {
			require.NoError(t, resp.Partitions[p].Err)
			require.NotEmpty(t, resp.Partitions[p].Bytes, "one fetch reads from all brokers")
			require.Equal(t, []string{fmt.Sprint("record of ", p)}, values(t, c, at("orders", p)))
			offsets[at("orders", p)] = partition.Latest
			s := c.Status("orders", p)
			require.NoError(t, s.Err)
			require.Equal(t, map[int32]int64{p%3 + 1: 1}, s.Ends)
			p, err := c.Partition(at("orders", p))
			require.NoError(t, err)
			require.EqualValues(t, 1, p.LogEndOffset())
		}
		ends, err := c.ListOffsets(t.Context(), offsets, partition.ReadUncommitted)
		require.NoError(t, err)
		for _, end := range ends {
			require.EqualValues(t, 1, end.Offset)
		}
		require.Equal(t, 6, c.Stats().OpenPartitions)
		report, err := c.Clean(t.Context())
		require.NoError(t, err)
		require.Len(t, report, 6)
		md, err := c.Metadata(t.Context())
		require.NoError(t, err)
		require.Equal(t, []Broker{{ID: 1}, {ID: 2}, {ID: 3}}, md.Brokers)
		require.NoError(t, c.Roll(t.Context(), "orders"))
	}
	check(c)
	killed := openBrokers(t, fsys.Kill(), 3)
	check(killed)
	require.NoError(t, killed.Close())
	cut := openBrokers(t, fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}), 0)
	check(cut)
	require.NoError(t, cut.Close())

	starts, err := c.DeleteRecords(t.Context(), map[tp]int64{at("orders", 1): 1, at("orders", 2): -1})
	require.NoError(t, err)
	require.Equal(t, map[tp]int64{at("orders", 1): 1, at("orders", 2): 1}, starts)
	require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
	require.Empty(t, servedDirs(t, fsys), "on no broker")
	require.NoError(t, c.Close())
}

// Topics of one partition are spread over all brokers. A topic that grows continues the round
// robin.
func TestLeadersAreSpreadAcrossTopics(t *testing.T) {
	c := openWith(t, Config{Brokers: 3})
	led := map[int32]int{}
	for i := range 9 {
		create(t, c, fmt.Sprint("one-", i), 1)
		led[leaders(t, c, fmt.Sprint("one-", i))[0]]++
	}
	require.Equal(t, map[int32]int{1: 3, 2: 3, 3: 3}, led)
	var specs []TopicSpec
	for i := range 9 {
		specs = append(specs, TopicSpec{Name: fmt.Sprint("together-", i)})
	}
	for _, err := range c.CreateTopics(t.Context(), specs) {
		require.NoError(t, err)
	}
	for i := range 9 {
		led[leaders(t, c, fmt.Sprint("together-", i))[0]]++
	}
	require.Equal(t, map[int32]int{1: 6, 2: 6, 3: 6}, led, "created in one change")
	create(t, c, "shift", 1)
	create(t, c, "grows", 3)
	require.NoError(t, c.AddPartitions(t.Context(), "grows", 7))
	got := leaders(t, c, "grows")
	for i := range got[1:] {
		require.Equal(t, got[i]%3+1, got[i+1], "%v", got)
	}
}

func TestLeadersAlternateBetweenRacks(t *testing.T) {
	c := openWith(t, Config{Brokers: 5, BrokerSpecs: map[int32]BrokerSpec{
		1: {Rack: "a"}, 2: {Rack: "a"}, 3: {Rack: "a"}, 4: {Rack: "b"}, 5: {Rack: "c"},
	}})
	create(t, c, "orders", 5)
	require.Equal(t, []int32{1, 4, 5, 2, 3}, leaders(t, c, "orders"))
	md, err := c.Metadata(t.Context())
	require.NoError(t, err)
	require.Equal(t, Broker{ID: 4, Rack: "b"}, md.Brokers[3])
}

func TestReplicasGoWhereTheAdministratorSays(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Assignment: [][]int32{{3}, {3}, {1}}}))
	require.Equal(t, []int32{3, 3, 1}, leaders(t, c, "orders"))
	require.NoError(t, c.AddPartitions(ctx, "orders", 5, []int32{2}, []int32{3}))
	require.Equal(t, []int32{3, 3, 1, 2, 3}, leaders(t, c, "orders"))
	before := c.MetadataVersion()
	for what, cfg := range map[string]topic.Config{
		"empty":              {Assignment: [][]int32{}},
		"no replica":         {Assignment: [][]int32{{}}},
		"unknown broker":     {Assignment: [][]int32{{4}}},
		"other shape":        {Assignment: [][]int32{{1}, {2, 3}}},
		"other partitions":   {Assignment: [][]int32{{1}}, Partitions: 2},
		"other replicas":     {Assignment: [][]int32{{1}}, ReplicationFactor: 2},
		"no broker at all 0": {Assignment: [][]int32{{0}}},
	} {
		require.ErrorContains(t, c.CreateTopic(ctx, "x", cfg), "invalid", what)
		_, _, err := c.DryRun().CreateTopic(ctx, "x", cfg)
		require.Error(t, err, what)
	}
	require.ErrorIs(t, c.CreateTopic(ctx, "x", topic.Config{Assignment: [][]int32{{7}}}), ErrUnknownBroker)
	require.ErrorIs(t, c.CreateTopic(ctx, "x", topic.Config{ReplicationFactor: 4}), ErrInvalidReplicationFactor)
	require.ErrorIs(t, c.CreateTopic(ctx, "x", topic.Config{Assignment: [][]int32{{1, 1}}}), ErrInvalidAssignment)
	require.ErrorIs(t, c.AddPartitions(ctx, "orders", 7, []int32{1}), ErrInvalidAssignment, "of one, there are two")
	require.ErrorIs(t, c.AddPartitions(ctx, "orders", 6, []int32{9}), ErrUnknownBroker)
	require.ErrorIs(t, c.AddPartitions(ctx, "orders", 6, []int32{1, 1}), ErrInvalidAssignment)
	require.Equal(t, before, c.MetadataVersion(), "nothing has changed")
	require.NoError(t, c.Close())
	c = openBrokers(t, fsys, 2)
	require.ErrorIs(t, c.CreateTopic(ctx, "x", topic.Config{Assignment: [][]int32{{3}}}), ErrInvalidAssignment, "it does not serve")
	require.NoError(t, c.Close())
}

// A cluster of one broker grows. Existing partitions stay where they are, and new ones are spread
// over all brokers.
func TestBrokersAreAddedWhenTheClusterIsOpened(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 0)
	id := c.ClusterID()
	create(t, c, "old", 3)
	produce(t, c, at("old", 1), "x")
	epoch := c.Status("old", 1).LeaderEpoch
	require.NoError(t, c.Close())
	c = openBrokers(t, fsys, 3)
	require.Equal(t, id, c.ClusterID())
	require.Equal(t, []int32{1, 2, 3}, c.Brokers())
	require.Equal(t, []int32{1, 1, 1}, leaders(t, c, "old"))
	require.Equal(t, []string{"x"}, values(t, c, at("old", 1)))
	require.Equal(t, epoch, c.Status("old", 1).LeaderEpoch)
	create(t, c, "new", 3)
	require.ElementsMatch(t, []int32{1, 2, 3}, leaders(t, c, "new"))
	for p := range int32(3) {
		produce(t, c, at("new", p), "y")
	}
	require.NoError(t, c.Close())
	c = openBrokers(t, fsys, 0) // all brokers whose directories exist
	require.Equal(t, []int32{1, 2, 3}, c.Brokers())
	require.Equal(t, 3, c.ClusterConfig().Brokers)
	require.NoError(t, c.Close())
}

// The partitions of an absent broker have no leader until it returns. It returns with all its
// records.
func TestPartitionsOfAnAbsentBrokerHaveNoLeaderUntilItIsBack(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "orders", 3)
	create(t, c, "gone", 3)
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x")
		produce(t, c, at("gone", p), "x")
	}
	require.NoError(t, c.Close())

	c = openBrokers(t, fsys, 2)
	require.Equal(t, []int32{1, 2}, c.Brokers())
	require.Equal(t, []int32{1, 2, -1}, leaders(t, c, "orders"))
	s := c.Status("orders", 2)
	require.Equal(t, []int32{3}, s.Replicas)
	require.Equal(t, int32(1), s.LeaderEpoch, "losing the leader is a change of the leader")
	require.ErrorIs(t, s.Err, ErrNotLeader)
	require.ErrorIs(t, tryProduce(c, at("orders", 2), "y").Err, ErrNotLeader)
	_, err := c.Partition(at("orders", 2))
	require.ErrorIs(t, err, ErrNotLeader)
	resp, err := c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{}))
	require.NoError(t, err)
	require.NoError(t, resp.Partitions[0].Err)
	require.ErrorIs(t, resp.Partitions[2].Err, ErrNotLeader)
	info, err := c.Topic(t.Context(), "orders")
	require.NoError(t, err)
	require.ErrorIs(t, info.Partitions[2].Err, ErrNotLeader)
	require.ErrorIs(t, c.Backup(t.Context(), "copy"), ErrMissing, "a copy would not be whole")
	produce(t, c, at("orders", 1), "y")
	require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
	require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("retention.ms", "60000")))
	create(t, c, "later", 4)
	require.NotContains(t, leaders(t, c, "later"), int32(3))
	require.NoError(t, c.Close())
	_, err = fsys.Stat("data/broker-3/gone-2/partition.metadata")
	require.NoError(t, err, "nobody was there to delete it")

	c = openBrokers(t, fsys, 3)
	require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders"))
	require.Equal(t, int32(2), c.Status("orders", 2).LeaderEpoch)
	require.Equal(t, []string{"x"}, values(t, c, at("orders", 2)))
	require.Equal(t, int32(2), produce(t, c, at("orders", 2), "y").LeaderEpoch)
	require.NotContains(t, partitionDirs(t, fsys), "gone-2", "deleted while it was away")
	require.NoError(t, c.Close())
}

// A topic is deleted while a broker is away. The metadata keeps the deletion until the broker
// returns, also across snapshots. Otherwise its directory would be taken for a stray and kept for
// ever.
func TestDeletionWaitsForTheBrokerThatIsAway(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "gone", 3)
	produce(t, c, at("gone", 2), "x")
	require.NoError(t, c.Close())
	c, err := Open(Config{FS: fsys, Dir: "data", Brokers: 2, metaSlack: -1})
	require.NoError(t, err)
	require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
	for i := range 5 {
		create(t, c, fmt.Sprint("t", i), 1) // each writes a snapshot
	}
	require.Positive(t, c.meta.Own().StartOffset())
	require.NoError(t, c.Close())
	c = openBrokers(t, fsys, 3)
	require.Equal(t, []int32{1, 2, 3}, c.Brokers(), "a snapshot knows who is away")
	require.NotContains(t, fmt.Sprint(partitionDirs(t, fsys)), "gone")
	require.NoError(t, c.Close())
}

func TestDirectoriesThatDoNotBelongTogetherAreRefused(t *testing.T) {
	one, other := vfs.Mem(), vfs.Mem()
	for _, fsys := range []vfs.FS{one, other} {
		c := openBrokers(t, fsys, 3)
		create(t, c, "orders", 3)
		for p := range int32(3) {
			produce(t, c, at("orders", p), "x")
		}
		require.NoError(t, c.Close())
	}
	move := func(from, to string) func(fsys *vfs.MemFS) {
		return func(fsys *vfs.MemFS) { require.NoError(t, fsys.Rename("data/"+from, "data/"+to)) }
	}
	for what, tc := range map[string]struct {
		change func(fsys *vfs.MemFS)
		specs  map[int32]BrokerSpec
		want   error
	}{
		"of another cluster": {specs: map[int32]BrokerSpec{2: {FS: other}}, want: ErrMixed},
		"two exchanged": {func(fsys *vfs.MemFS) {
			move("broker-2", "x")(fsys)
			move("broker-3", "broker-2")(fsys)
			move("x", "broker-3")(fsys)
		}, nil, ErrForeign},
		"under another name": {move("broker-3", "broker-4"), nil, ErrForeign},
		"two of three missing": {func(fsys *vfs.MemFS) {
			move("broker-1", "elsewhere")(fsys)
			move("broker-3", "elsewhere3")(fsys)
		}, nil, ErrMissing},
		"files of others beside brokers": {func(fsys *vfs.MemFS) {
			for id := range 4 {
				require.NoError(t, fsys.RemoveAll(fmt.Sprint("data/broker-", id)))
			}
			require.NoError(t, vfs.WriteFile(fsys, "data/passwd", nil))
		}, nil, ErrForeign},
		"files of others":     {func(fsys *vfs.MemFS) { require.NoError(t, vfs.WriteFile(fsys, "data/broker-4/x", nil)) }, nil, ErrForeign},
		"an unfinished copy":  {func(fsys *vfs.MemFS) { require.NoError(t, vfs.WriteFile(fsys, "data/broker-2/"+unfinishedFile, nil)) }, nil, ErrUnfinished},
		"one of another disk": {specs: map[int32]BrokerSpec{3: {Dir: "data/other-3"}}, want: ErrForeign, change: secondDirectory(t, "data/broker-3", "data/other-3")},
	} {
		fsys := one.Kill()
		if what == "files of others" {
			require.NoError(t, fsys.MkdirAll("data/broker-4", 0o755))
		}
		if tc.change != nil {
			tc.change(fsys)
		}
		changes := fsys.Count(vfs.OpChange)
		_, err := Open(Config{FS: fsys, Dir: "data", BrokerSpecs: tc.specs})
		require.ErrorIs(t, err, tc.want, what)
		var dir *DirectoryError
		require.ErrorAs(t, err, &dir, what)
		require.NotEmpty(t, dir.Advice)
		// The metadata has to be read for the cases left out here.
		if what != "one of another disk" && tc.want != ErrMissing {
			require.Equal(t, changes, fsys.Count(vfs.OpChange), "%s: nothing was changed", what)
		}
	}
	fsys := one.Kill()
	held, err := fsys.Lock("data/broker-3/.lock")
	require.NoError(t, err)
	_, err = Open(Config{FS: fsys, Dir: "data"})
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, held.Close())
	c := openBrokers(t, fsys, 3)
	require.Equal(t, []string{"x"}, values(t, c, at("orders", 2)), "as it was")
	require.NoError(t, c.Close())
}

// secondDirectory makes a directory of the same broker with another directory id, as after a loss
// of the disk.
func secondDirectory(t *testing.T, from, to string) func(*vfs.MemFS) {
	return func(fsys *vfs.MemFS) {
		p, err := vfs.ReadFile(fsys, from+"/"+metaPropertiesFile)
		require.NoError(t, err)
		m, err := decodeMeta(p)
		require.NoError(t, err)
		m.directoryID = topic.NewID().String()
		require.NoError(t, fsys.MkdirAll(to, 0o755))
		require.NoError(t, vfs.WriteFile(fsys, to+"/"+metaPropertiesFile, m.encode()))
	}
}

// An empty disk is not taken for the disk of a broker that was never written to.
func TestBrokerThatLostItsDirectoryStaysDown(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "orders", 3)
	produce(t, c, at("orders", 2), "x")
	require.NoError(t, c.Close())
	require.NoError(t, fsys.RemoveAll("data/broker-3"))
	require.NoError(t, fsys.MkdirAll("data/broker-3", 0o755))
	c = openBrokers(t, fsys, 3)
	require.Equal(t, []int32{1, 2}, c.Brokers())
	require.Equal(t, []int32{1, 2, -1}, leaders(t, c, "orders"))
	require.ErrorIs(t, c.Status("orders", 2).Err, ErrNotLeader, "not empty: nobody knows what was in it")
	require.NoError(t, c.Close())
	entries, err := fsys.ReadDir("data/broker-3")
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestEachBrokerCanHaveADiskOfItsOwn(t *testing.T) {
	disks := []*vfs.MemFS{vfs.Mem(), vfs.Mem(), vfs.Mem()}
	cfg := Config{FS: disks[0], Dir: "data", Brokers: 3, BrokerSpecs: map[int32]BrokerSpec{2: {FS: disks[1]}, 3: {FS: disks[2], Dir: "elsewhere/third", Rack: "r"}}}
	c, err := Open(cfg)
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1}, {2}, {3}}}))
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x")
	}
	require.Equal(t, "elsewhere/third", c.LogDir(3))
	require.Empty(t, c.LogDir(4))
	for i, name := range []string{"data/broker-1/orders-0", "data/broker-2/orders-1", "elsewhere/third/orders-2"} {
		_, err := disks[i].Stat(name)
		require.NoError(t, err, name)
	}
	require.ErrorContains(t, c.Backup(t.Context(), "data/broker-1/x"), "inside")
	require.NoError(t, c.Backup(t.Context(), "copy"))
	require.NoError(t, c.Close())
	// The disk of broker 3 is not mounted.
	cfg.BrokerSpecs = map[int32]BrokerSpec{2: cfg.BrokerSpecs[2]}
	c, err = Open(cfg)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2}, c.Brokers(), "the place where it would be otherwise is not taken for its disk")
	_, err = disks[0].Stat("data/broker-3")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, c.Close())
}

func TestBackupAndRestoreOfSeveralBrokers(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "orders", 6)
	for p := range int32(6) {
		produce(t, c, at("orders", p), fmt.Sprint(p))
	}
	require.NoError(t, c.Backup(t.Context(), "copy"))
	require.ErrorIs(t, Restore(t.Context(), fsys, "data", "new"), ErrLocked)
	require.NoError(t, c.Close())
	require.NoError(t, Restore(t.Context(), fsys, "copy", "restored"))
	for _, dir := range []string{"copy", "restored"} {
		again, err := Open(Config{FS: fsys, Dir: dir})
		require.NoError(t, err, dir)
		require.Equal(t, c.ClusterID(), again.ClusterID())
		require.Equal(t, []int32{1, 2, 3}, again.Brokers())
		for p := range int32(6) {
			require.Equal(t, []string{fmt.Sprint(p)}, values(t, again, at("orders", p)), dir)
		}
		require.NoError(t, again.Close())
	}
	require.NoError(t, fsys.RemoveAll("copy/broker-2/meta.properties"))
	require.Error(t, Restore(t.Context(), fsys, "copy", "half"))
	_, err := fsys.Stat("half")
	require.Error(t, err)
}

// Killed or without power at any point, a copy opens with all brokers or not at all. This holds
// also if only some are requested.
func TestBackupOfSeveralBrokersIsWholeOrDoesNotOpen(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "orders", 3)
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x")
	}
	opened := 0
	check := func(disk *vfs.MemFS, where string) {
		if _, err := disk.Stat("copy/broker-1/" + metaPropertiesFile); err != nil {
			return // no cluster
		}
		one, err := Open(Config{FS: disk, Dir: "copy", Brokers: 2})
		if err != nil {
			require.ErrorIs(t, err, ErrUnfinished, where)
			return
		}
		require.NoError(t, one.Close())
		again, err := Open(Config{FS: disk, Dir: "copy", Brokers: 3})
		require.NoError(t, err, where)
		defer again.Close()
		opened++
		for p := range int32(3) {
			require.Equal(t, []string{"x"}, values(t, again, at("orders", p)), where)
		}
	}
	var one sync.Mutex
	remove := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		one.Lock()
		defer one.Unlock()
		if e.Op&vfs.OpChange == 0 {
			return
		}
		check(fsys.Kill(), "killed before "+e.String())
		check(fsys.Crash(uint64(e.N)), "power cut before "+e.String())
	}})
	require.NoError(t, c.Backup(t.Context(), "copy"))
	remove()
	before := opened
	check(fsys.Crash(1), "afterwards")
	require.Equal(t, before+1, opened)
	require.NoError(t, c.Close())
}

func TestSettingsOfOneBrokerCountOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{Brokers: 2})
		require.NoError(t, err)
		defer c.Close()
		create(t, c, "orders", 2)
		for p := range int32(2) {
			produce(t, c, at("orders", p), "x")
		}
		change := ConfigChange{Key: "log.retention.ms", Value: "1000"}
		require.ErrorIs(t, c.AlterBrokerConfig(t.Context(), 3, change), ErrUnknownBroker)
		require.NoError(t, c.AlterBrokerConfig(t.Context(), 2, change))
		time.Sleep(time.Minute)
		_, err = c.Clean(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, c.Status("orders", 1).LogStartOffset)
		require.Zero(t, c.Status("orders", 0).LogStartOffset, "the other broker keeps its records")
	})
}
