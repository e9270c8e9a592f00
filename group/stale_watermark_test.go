package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The leader of the offsets partition dies before any follower learns that a commit is committed.
// The next leader has the record above its high watermark until another follower fetches. A
// coordinator that loads before that would return the previous commit.
func TestCoordinatorLoadsWhatEarlierLeadersHaveConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		brokers, c := openReplicated(t)
		defer func() { require.NoError(t, brokers.Close()) }()
		defer func() { require.NoError(t, c.Close()) }()
		tp := record.TopicPartition{Topic: "t"}
		commit(t, c, commitOf("g", record.Offsets{tp: 1}))
		synctest.Wait()
		shard := record.TopicPartition{Topic: offsets.Topic, Partition: offsets.PartitionFor("g", 50)}
		led := brokers.Leader(shard.Topic, shard.Partition)

		// Responses of the leader take a second. They are lost once the followers have the commit.
		var paths []replication.NetworkPath
		for i := range int32(9) {
			paths = append(paths, replication.NetworkPath{From: i/3 + 1, To: i%3 + 1})
		}
		for _, p := range paths[3*led-3 : 3*led] {
			brokers.Network().Slow(p, time.Second)
		}
		commit(t, c, commitOf("g", record.Offsets{tp: 2}))
		for _, p := range paths {
			brokers.Network().Cut(p)
		}
		require.NoError(t, brokers.KillBroker(led))
		now := brokers.Status(shard.Topic, shard.Partition)
		require.EqualValues(t, []int64{1, 2}, []int64{now.HighWatermark, now.LogEndOffset}, "the commit is above the high watermark of the next leader")

		got := make(chan int64, 1) // buffered: no goroutine receives if the test fails
		go func() {
			at, _ := c.FetchOffsets(ctx, "g", []record.TopicPartition{tp})
			got <- at[tp].Offset
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Empty(t, got, "loaded before the commit was known to be committed")
		for _, p := range paths {
			brokers.Network().Mend(p)
		}
		require.EqualValues(t, 2, <-got)
	})
}

// openReplicated opens three brokers and the coordinator. Every broker has a replica of all
// offsets, on stable storage. Topic t has one replica.
func openReplicated(t *testing.T) (*replication.Cluster, *Coordinator) {
	t.Helper()
	cfg := replication.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3, BrokerSpecs: map[int32]replication.BrokerSpec{}}
	for id := range int32(2) {
		cfg.BrokerSpecs[id+2] = replication.BrokerSpec{FS: vfs.Mem()}
	}
	brokers, err := replication.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{}))
	c, err := NewCoordinator(ClusterStore(brokers), Config{})
	require.NoError(t, err)
	return brokers, c
}
