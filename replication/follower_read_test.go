package replication

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// openRacks opens three brokers in the racks a, b and c, and creates a topic led by broker 1.
func openRacks(t *testing.T, selector ReplicaSelector) (*Cluster, disks) {
	t.Helper()
	ds := newDisks(3)
	cfg := ds.config()
	for i, rack := range []string{"a", "b", "c"} {
		cfg.BrokerSpecs[int32(i+1)] = BrokerSpec{FS: ds[i], Rack: rack}
	}
	cfg.ReplicaSelector = selector
	c := openWith(t, cfg)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
		Assignment: [][]int32{{1, 2, 3}}, Properties: properties("min.insync.replicas", "1"),
	}))
	return c, ds
}

// fetchable is implemented by Cluster and View.
type fetchable interface {
	Fetch(context.Context, *partition.FetchRequest) (*partition.FetchResponse, error)
}

// from fetches from orders-0 at an offset. Each alter function changes the request.
func from(t *testing.T, c fetchable, offset int64, alter ...func(*partition.FetchRequest)) partition.FetchedPartition {
	t.Helper()
	req := &partition.FetchRequest{
		Partitions: []partition.FetchPartition{{TopicPartition: at("orders", 0), Offset: offset, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}},
	}
	for _, a := range alter {
		a(req)
	}
	resp, err := c.Fetch(t.Context(), req)
	require.NoError(t, err)
	return resp.Partitions[0]
}

func inTheRack(rack string) func(*partition.FetchRequest) {
	return func(r *partition.FetchRequest) { r.Rack = rack }
}

func waiting(d time.Duration) func(*partition.FetchRequest) {
	return func(r *partition.FetchRequest) { r.MaxWait = d }
}

func inEpoch(epoch int32) func(*partition.FetchRequest) {
	return func(r *partition.FetchRequest) { r.Partitions[0].CurrentLeaderEpoch = epoch }
}

// reads returns the number of reads from the replicas of orders-0, by broker.
func reads(t *testing.T, c *Cluster) map[int32]int64 {
	t.Helper()
	n := map[int32]int64{}
	for _, broker := range c.Brokers() {
		if p, err := c.View(broker).Replica(at("orders", 0)); err == nil && p != nil {
			n[broker] = p.Stats().Reads
		}
	}
	return n
}

func TestReaderIsServedInItsRack(t *testing.T) {
	for name, tc := range map[string]struct {
		selector ReplicaSelector
		rack     string
		by       int32
	}{
		"a follower's":             {RackAwareSelector, "b", 2},
		"another follower's":       {RackAwareSelector, "c", 3},
		"the leader's":             {RackAwareSelector, "a", 1},
		"nobody's":                 {RackAwareSelector, "z", 1},
		"not told":                 {RackAwareSelector, "", 1},
		"racks are not looked at":  {LeaderSelector, "b", 1},
		"nothing asks for leaders": {0, "b", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openRacks(t, tc.selector)
				got := from(t, c, 0, inTheRack(tc.rack))
				require.NoError(t, got.Err, "nothing is written yet")
				require.NoError(t, all(c, at("orders", 0), "x", "y").Err)
				synctest.Wait()
				before := c.Stats().FollowerReads
				got = from(t, c, 0, inTheRack(tc.rack))
				require.NoError(t, got.Err)
				require.NotEmpty(t, got.Bytes)
				require.Zero(t, got.PreferredReplica, "it was read there, nobody has to ask again")
				require.EqualValues(t, 2, got.HighWatermark)
				require.Equal(t, c.Status("orders", 0).LeaderEpoch, got.LeaderEpoch)
				want := map[int32]int64{1: 0, 2: 0, 3: 0}
				want[tc.by]++
				require.Equal(t, want, reads(t, c))
				require.Equal(t, tc.by != 1, c.Stats().FollowerReads > before)
			})
		})
	}
}

// A fetch from the leader's view returns the follower in the reader's rack, at once and without
// records.
func TestLeaderNamesTheFollowerInTheReadersRack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openRacks(t, RackAwareSelector)
		synctest.Wait()
		require.EqualValues(t, 2, from(t, c.View(1), 0, inTheRack("b"), waiting(time.Hour)).PreferredReplica, "nothing is written yet")
		require.NoError(t, all(c, at("orders", 0), "x", "y").Err)
		synctest.Wait()
		epoch := c.Status("orders", 0).LeaderEpoch
		start := time.Now()
		for offset := range int64(3) { // 2 is the end, where the fetch does not wait
			got := from(t, c.View(1), offset, inTheRack("b"), waiting(time.Hour), inEpoch(epoch))
			require.Equal(t, partition.FetchedPartition{
				TopicPartition: at("orders", 0), HighWatermark: 2, LastStableOffset: 2, LeaderEpoch: epoch, PreferredReplica: 2, Aborted: []partition.AbortedTxn{},
			}, got)
		}
		require.Zero(t, time.Since(start))
		require.ErrorIs(t, from(t, c.View(1), 1, inTheRack("b"), inEpoch(epoch+1)).Err, partition.ErrUnknownLeaderEpoch)
		require.ErrorIs(t, from(t, c.View(1), 3, inTheRack("b")).Err, partition.ErrOffsetOutOfRange)
		leaderOnly := func(r *partition.FetchRequest) { r.LeaderOnly = true }
		require.NotEmpty(t, from(t, c.View(1), 0, inTheRack("b"), leaderOnly).Bytes)
		require.NotEmpty(t, from(t, c.View(1), 0, inTheRack("a")).Bytes)

		_, err := c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{at("orders", 0): 1})
		require.NoError(t, err)
		require.ErrorIs(t, from(t, c.View(1), 0, inTheRack("b")).Err, partition.ErrOffsetOutOfRange)

		c.Network().Cut(NetworkPath{From: 1, To: 2})
		require.NoError(t, all1(c, at("orders", 0), "z").Err)
		require.NotEmpty(t, from(t, c.View(1), 1, inTheRack("b"), waiting(0)).PreferredReplica, "the follower has offset 1")
		time.Sleep(2 * time.Minute)
		require.Equal(t, []int32{1, 3}, c.Status("orders", 0).ISR)
		require.NotEmpty(t, from(t, c.View(1), 2, inTheRack("b")).Bytes, "it is out of sync")
	})
}

// all1 appends one batch with acks=1.
func all1(c *Cluster, tp tp, values ...string) partition.ProduceResult {
	return tryAcks(c, tp, record.AcksLeader, values...)
}

// A follower serves every reader that fetches from it, up to the high watermark that it has
// received.
func TestFollowerShowsWhatItKnowsToBeCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openRacks(t, LeaderSelector)
		require.NoError(t, from(t, c.View(2), 0).Err, "nothing is written yet")
		require.ErrorIs(t, from(t, c.View(2), 1).Err, partition.ErrOffsetOutOfRange)
		require.NoError(t, all(c, at("orders", 0), "x").Err)
		synctest.Wait()
		epoch := c.Status("orders", 0).LeaderEpoch
		got := from(t, c.View(2), 0, inTheRack("a"), inEpoch(epoch))
		require.NotEmpty(t, got.Bytes)
		require.Zero(t, got.PreferredReplica, "a follower sends nobody elsewhere")
		require.Equal(t, epoch, got.LeaderEpoch)
		require.ErrorIs(t, from(t, c.View(2), 0, inEpoch(epoch+1)).Err, partition.ErrUnknownLeaderEpoch)
		require.ErrorIs(t, from(t, c.View(2), 0, func(r *partition.FetchRequest) { r.LeaderOnly = true }).Err, ErrNotLeader)
		require.ErrorIs(t, from(t, c.View(2), 0, inEpoch(epoch+1), func(r *partition.FetchRequest) { r.LeaderOnly = true }).Err, partition.ErrUnknownLeaderEpoch)
		require.ErrorIs(t, from(t, c.View(7), 0).Err, ErrNotLeader)

		// Broker 3 is slow, so broker 2 has a record for a while that is not committed.
		c.Network().Pause(NetworkPath{From: 1, To: 3})
		require.NoError(t, all1(c, at("orders", 0), "y").Err)
		synctest.Wait()
		require.EqualValues(t, 2, c.Status("orders", 0).Ends[2])
		got = from(t, c.View(2), 1)
		require.NoError(t, got.Err)
		require.Empty(t, got.Bytes)
		require.EqualValues(t, 1, got.HighWatermark)
		require.NoError(t, from(t, c.View(2), 2).Err, "the end of its log")
		require.ErrorIs(t, from(t, c.View(2), 3).Err, partition.ErrOffsetOutOfRange)

		// A reader that waits at the follower gets the record when the follower has the new high
		// watermark.
		heard := make(chan partition.FetchedPartition, 1)
		go func() { heard <- from(t, c.View(2), 1, waiting(time.Hour)) }()
		synctest.Wait()
		start := time.Now()
		c.Network().Mend(NetworkPath{From: 1, To: 3})
		require.NotEmpty(t, (<-heard).Bytes)
		require.Less(t, time.Since(start), time.Second)

		// Only the leader returns the end.
		ends, err := c.View(2).ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{at("orders", 0): partition.Latest}, partition.ReadCommitted)
		require.NoError(t, err)
		require.ErrorIs(t, ends[at("orders", 0)].Err, ErrNotLeader)

		// Without a leader, committed records can still be read.
		c.Network().Cut(NetworkPath{From: 1, To: 2})
		require.NoError(t, all1(c, at("orders", 0), "z").Err)
		time.Sleep(2 * time.Minute)
		require.NoError(t, c.KillBroker(3))
		require.NoError(t, c.KillBroker(1))
		require.EqualValues(t, -1, c.Leader("orders", 0))
		require.NotEmpty(t, from(t, c.View(2), 1, inEpoch(c.Status("orders", 0).LeaderEpoch)).Bytes)
	})
}

// A reader waits for a record at a follower that stops, is cut off or becomes the leader. It gets
// the record from the leader. Nothing is lost, and no offset is out of range.
func TestReaderOfAFollowerThatCannotServeItGoesOnAtTheLeader(t *testing.T) {
	const out = 2 * time.Minute // longer than a follower that lags stays in sync
	for name, tc := range map[string]struct {
		end   func(t *testing.T, c *Cluster, ds disks)
		bound time.Duration
	}{
		"killed":  {func(t *testing.T, c *Cluster, _ disks) { require.NoError(t, c.KillBroker(2)) }, time.Second},
		"stopped": {func(t *testing.T, c *Cluster, _ disks) { require.NoError(t, c.StopBroker(t.Context(), 2)) }, time.Second},
		"cut off": {func(_ *testing.T, c *Cluster, _ disks) { c.Network().Cut(NetworkPath{From: 1, To: 2}) }, out},
		"its disk hangs": {func(_ *testing.T, _ *Cluster, ds disks) {
			ds[1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: time.Hour})
		}, out},
		"elected": {func(t *testing.T, c *Cluster, _ disks) {
			require.NoError(t, c.TransferLeader(t.Context(), at("orders", 0), 2))
		}, time.Second},
		"reassigned": {func(t *testing.T, c *Cluster, _ disks) {
			require.NoError(t, errors.Join(c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: at("orders", 0), Replicas: []int32{1, 3}})...))
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openRacks(t, RackAwareSelector)
				require.NoError(t, all(c, at("orders", 0), "x").Err)
				synctest.Wait()
				require.NotEmpty(t, from(t, c, 0, inTheRack("b")).Bytes)
				require.Positive(t, reads(t, c)[2])
				heard := make(chan partition.FetchedPartition, 1)
				go func() { heard <- from(t, c, 1, inTheRack("b"), waiting(24*time.Hour)) }()
				synctest.Wait()
				tc.end(t, c, ds)
				synctest.Wait()
				start := time.Now()
				require.NoError(t, all1(c, at("orders", 0), "y").Err)
				got := <-heard
				require.NoError(t, got.Err)
				require.NotEmpty(t, got.Bytes)
				require.LessOrEqual(t, time.Since(start), tc.bound)
			})
		})
	}
}

func TestErrorsOfAFollowerDoNotReachTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openRacks(t, RackAwareSelector)
		require.NoError(t, all(c, at("orders", 0), "x").Err)
		require.NoError(t, c.StopBroker(t.Context(), 2)) // afterwards nothing is in memory
		require.NoError(t, c.StartBroker(t.Context(), 2))
		inSync(t, c, at("orders", 0), 3)
		synctest.Wait()
		ds[1].Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "*.log", Times: vfs.Always, Err: errDisk})
		require.ErrorIs(t, from(t, c.View(2), 0).Err, errDisk)
		got := from(t, c, 0, inTheRack("b"))
		require.NoError(t, got.Err)
		require.NotEmpty(t, got.Bytes)
	})
}

func TestReplicaSelectorsAreNamedAsInKafka(t *testing.T) {
	for _, class := range []string{LeaderSelector.Class(), RackAwareSelector.Class()} {
		c := openWith(t, Config{Properties: map[string]string{"replica.selector.class": class}})
		require.Equal(t, class, c.ClusterConfig().ReplicaSelector.Class())
		require.NoError(t, c.Close())
	}
	_, err := Open(Config{Properties: map[string]string{"replica.selector.class": "my.own.Selector"}})
	require.ErrorAs(t, err, new(*topic.ConfigError))
	_, err = Open(Config{ReplicaSelector: RackAwareSelector, Properties: map[string]string{"replica.selector.class": LeaderSelector.Class()}})
	require.ErrorAs(t, err, new(*topic.ConfigError))
	_, err = Open(Config{ReplicaSelector: 7})
	require.ErrorContains(t, err, "unknown replica selector 7")
}

func TestFurthestFollowerThatHasTheOffsetIsSelected(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	known := []partition.FollowerState{
		{Broker: 2, End: 10, LogStart: 0, CaughtUp: at(1)},
		{Broker: 3, End: 12, LogStart: 5, CaughtUp: at(1)},
		{Broker: 4, End: 12, LogStart: 5, CaughtUp: at(2)},
		{Broker: 5, End: 20, LogStart: 0, CaughtUp: at(2)}, // not in near
		{Broker: 6, End: -1, LogStart: -1},                 // no fetch received yet
	}
	near := []int32{2, 3, 4, 6}
	for offset, want := range map[int64]int32{0: 2, 4: 2, 5: 4, 10: 4, 12: 4, 13: 0} {
		require.Equal(t, want, furthest(near, offset, known), "offset %d", offset)
	}
	known[3].Broker = 2
	require.EqualValues(t, 0, furthest(nil, 0, known))
}
