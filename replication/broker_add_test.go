package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/vfs"
)

func TestBrokersAreAddedAndRemovedWhileTheClusterRuns(t *testing.T) {
	fsys, disk := vfs.Mem(), vfs.Mem()
	c := openBrokers(t, fsys, 1)
	placed(t, c, "old", 1)
	produce(t, c, at("old", 0), "x")
	ctx := t.Context()
	id, err := c.AddBroker(ctx, 0, BrokerSpec{FS: disk, Rack: "r"})
	require.NoError(t, err)
	require.Equal(t, int32(2), id)
	id, err = c.AddBroker(ctx, 7, BrokerSpec{})
	require.NoError(t, err)
	require.Equal(t, int32(7), id)
	require.Equal(t, []int32{1, 2, 7}, c.Brokers())
	md, err := c.Metadata(ctx)
	require.NoError(t, err)
	require.Equal(t, Broker{ID: 2, Rack: "r"}, md.Brokers[1])
	create(t, c, "new", 3)
	require.ElementsMatch(t, []int32{1, 2, 7}, leaders(t, c, "new"))
	require.Equal(t, []int32{1}, leaders(t, c, "old"), "what there is stays where it is")
	for p := range int32(3) {
		produce(t, c, at("new", p), "y")
	}
	on2 := int32(0)
	for leaders(t, c, "new")[on2] != 2 {
		on2++
	}
	version := c.MetadataVersion()
	for _, tc := range []struct {
		id   int32
		spec BrokerSpec
		want error
	}{
		{2, BrokerSpec{}, ErrBrokerExists}, {-1, BrokerSpec{}, ErrUnknownBroker}, {maxBrokers + 1, BrokerSpec{}, ErrTooManyBrokers},
		{8, BrokerSpec{FS: disk, Dir: "data/broker-2"}, ErrSharedDirectory},
	} {
		_, err := c.AddBroker(ctx, tc.id, tc.spec)
		require.Error(t, err)
		require.ErrorIs(t, err, tc.want)
	}
	var has *ReplicasError
	for _, end := range []func() error{func() error { return nil }, func() error { return c.StopBroker(ctx, 2) }} {
		require.NoError(t, end())
		require.ErrorIs(t, c.RemoveBroker(ctx, 2), ErrHoldsReplicas)
		require.ErrorAs(t, c.RemoveBroker(ctx, 2), &has)
		require.Equal(t, []tp{at("new", on2)}, has.Partitions)
	}
	require.ErrorIs(t, c.RemoveBroker(ctx, 3), ErrUnknownBroker)
	require.ErrorIs(t, c.RemoveLostBroker(ctx, 7), ErrBrokerRunning)
	require.NoError(t, c.StartBroker(ctx, 2))
	require.Greater(t, c.MetadataVersion(), version)

	require.NoError(t, c.DeleteTopic(ctx, "new"))
	require.NoError(t, c.StopBroker(ctx, 7))
	require.NoError(t, c.RemoveBroker(ctx, 2), "it runs")
	require.NoError(t, c.RemoveBroker(ctx, 7), "it is down")
	require.Equal(t, []int32{1}, c.Members())
	require.Equal(t, []int32{1}, c.image.Serving())
	require.ErrorIs(t, c.RemoveBroker(ctx, 1), ErrHoldsReplicas)
	require.NoError(t, c.DeleteTopic(ctx, "old"))
	require.ErrorIs(t, c.RemoveBroker(ctx, 1), ErrLastBroker)
	require.ErrorIs(t, c.StartBroker(ctx, 2), ErrUnknownBroker)
	require.NoError(t, c.Backup(ctx, "copy"), "nobody is missing")
	require.NoError(t, c.Close())
	c = openBrokers(t, fsys, 1)
	require.Equal(t, []int32{1}, c.Brokers())
	require.Len(t, c.image.Members, 1)
	id, err = c.AddBroker(ctx, 2, BrokerSpec{FS: disk}) // with its former directory
	require.NoError(t, err)
	require.Equal(t, int32(2), id)
	require.NoError(t, c.Close())
}

func TestBrokerThatCannotStartIsNotAdded(t *testing.T) {
	c := openWith(t, Config{Brokers: 2})
	disk := vfs.Mem()
	require.NoError(t, disk.MkdirAll("d", 0o755))
	require.NoError(t, vfs.WriteFile(disk, "d/x", []byte("of somebody")))
	version := c.MetadataVersion()
	_, err := c.AddBroker(t.Context(), 3, BrokerSpec{FS: disk, Dir: "d"})
	require.ErrorIs(t, err, ErrForeign)
	mend := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Err: errDisk})
	_, err = c.AddBroker(t.Context(), 3, BrokerSpec{FS: disk, Dir: "e"})
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, version, c.MetadataVersion())
	require.Equal(t, []int32{1, 2}, c.Members())
	mend()
	_, err = c.AddBroker(t.Context(), 3, BrokerSpec{FS: disk, Dir: "e"})
	require.NoError(t, err)
}

// A disk is lost and replaced. Its partitions are given up only on an explicit RemoveLostBroker,
// and the leader epoch shows it to readers.
func TestLostDiskIsReplacedWhenItsPartitionsAreGivenUp(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	ctx := t.Context()
	placed(t, c, "orders", 1, 2, 3)
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x", "y")
	}
	require.NoError(t, c.KillBroker(2))
	found := ds[1].Kill()
	require.NoError(t, ds[1].RemoveAll("data"))
	require.ErrorIs(t, c.StartBroker(ctx, 2), ErrDiskReplaced)
	require.ErrorIs(t, c.RemoveBroker(ctx, 2), ErrHoldsReplicas)
	require.NoError(t, c.RemoveLostBroker(ctx, 2))
	require.Equal(t, []int32{1, 3}, c.Members())
	require.Equal(t, []int32{1, -1, 3}, leaders(t, c, "orders"), "nobody else has it")
	epoch := c.Status("orders", 1).LeaderEpoch
	_, err := c.AddBroker(ctx, 2, BrokerSpec{FS: ds[1]})
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders"))
	require.Equal(t, epoch+1, c.Status("orders", 1).LeaderEpoch)
	require.Empty(t, values(t, c, at("orders", 1)))
	resp, err := c.Fetch(ctx, &partition.FetchRequest{Partitions: []partition.FetchPartition{{TopicPartition: at("orders", 1), Offset: 2, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
	require.NoError(t, err)
	require.ErrorIs(t, resp.Partitions[0].Err, partition.ErrOffsetOutOfRange)
	produce(t, c, at("orders", 1), "z")
	require.Equal(t, []string{"x", "y"}, values(t, c, at("orders", 2)))

	// The old disk is found again, and is refused.
	require.NoError(t, c.StopBroker(ctx, 2))
	require.NoError(t, ds[1].Rename("data", "new"))
	copyAll(t, found, ds[1], "data")
	require.ErrorIs(t, c.StartBroker(ctx, 2), ErrForeign)
	require.NoError(t, c.RemoveLostBroker(ctx, 2))
	_, err = c.AddBroker(ctx, 2, BrokerSpec{FS: ds[1]})
	require.NoError(t, err)
	require.Equal(t, []string{"x", "y"}, values(t, c, at("orders", 1)), "as it was asked for")
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
}

// Snapshots and replays keep the members that were stopped, and drop those removed.
func TestMembersThatCameAndWentSurviveSnapshots(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{FS: fsys, Dir: "data", Brokers: 3, metaSlack: -1})
	require.NoError(t, err)
	require.NoError(t, c.RemoveBroker(t.Context(), 3))
	create(t, c, "a", 1)
	require.NoError(t, c.StopBroker(t.Context(), 2))
	create(t, c, "b", 1)
	c.changing <- struct{}{} // the snapshot that follows the change has ended
	require.Positive(t, c.meta.Own().StartOffset())
	members := c.image.Members
	<-c.changing
	require.NoError(t, c.Close())
	c, err = Open(Config{FS: fsys, Dir: "data", Brokers: 1})
	require.NoError(t, err)
	img, err := c.meta.Own().Image()
	require.NoError(t, err)
	require.Len(t, img.Members, 2)
	require.Equal(t, members[2], img.Members[2])
	require.True(t, img.Members[2].Fenced)
	require.NoError(t, c.Close())
}
