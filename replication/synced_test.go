package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// isDurable reports whether a partition's acknowledged records are on stable storage on its
// replicas, according to the metadata.
func isDurable(c *Cluster, tp tp) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Topics[tp.Topic].Partitions[tp.Partition].Durable
}

// After a change to SyncOnAck the replicas keep their places through a power cut of all brokers.
// The in-sync replicas must have synced the records acknowledged before. No election is unclean.
func TestTopicChangedToSyncOnAckSurvivesThePowerCutOfAllBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 3, "flush.messages", "9223372036854775807")
		for p := range int32(2) { // the last one is never written
			for i := range 10 {
				require.NoError(t, all(c, at("orders", p), fmt.Sprint(i)).Err)
			}
		}
		require.False(t, isDurable(c, at("orders", 0)))
		require.NoError(t, c.AlterTopicConfig(t.Context(), "orders", ConfigChange{Key: "flush.messages", Op: UnsetConfig}))
		time.Sleep(time.Second)
		dead := ds.crash()
		require.NoError(t, c.Close())
		c = openWith(t, dead.config())
		require.Zero(t, c.Stats().UncleanElections)
		for p := range int32(3) {
			require.True(t, isDurable(c, at("orders", p)))
			inSync(t, c, at("orders", p), 3)
			require.NoError(t, all(c, at("orders", p), "last").Err)
			require.Len(t, values(t, c, at("orders", p)), []int{11, 11, 1}[p])
		}
	})
}

// Followers that fetch while their leader's partition is being opened get nothing. They fetch
// again when it is open. Otherwise a partition that is never written would become Durable only at
// the next check for lagging followers.
func TestFollowersThatAskedTooEarlyAreWokenByTheOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 1)
		leader := c.nodes[c.Leader("orders", 0)]
		r := leader.replica(at("orders", 0))
		r.opening = make(chan struct{})
		p, err := leader.openPartition(r)
		require.NoError(t, err)
		time.Sleep(time.Second) // it leads, the followers have fetched, but it is not published
		r.opened(p)
		synctest.Wait()
		for _, s := range c.Status("orders", 0).Copies {
			if s.Broker != leader.id {
				require.WithinDuration(t, time.Now(), s.CaughtUp, 0, "broker %d has said how far it is", s.Broker)
			}
		}
	})
}

// As long as a follower has not synced its records, the partition is not Durable. It becomes so
// soon after, without an append.
func TestDurableWaitsForAllInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 1, "flush.messages", "9223372036854775807")
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		leader := c.Leader("orders", 0)
		slow := leader%3 + 1
		c.Network().Cut(NetworkPath{From: slow, To: leader})
		require.NoError(t, c.AlterTopicConfig(t.Context(), "orders", ConfigChange{Key: "flush.messages", Op: UnsetConfig}))
		time.Sleep(5 * time.Second)
		require.Len(t, c.Status("orders", 0).ISR, 3)
		require.False(t, isDurable(c, at("orders", 0)), "the leader does not know whether one has synced")
		c.Network().Mend(NetworkPath{From: slow, To: leader})
		time.Sleep(1500 * time.Millisecond)
		require.True(t, isDurable(c, at("orders", 0)))
		require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("flush.messages", "9223372036854775807")))
		require.False(t, isDurable(c, at("orders", 0)))
	})
}
