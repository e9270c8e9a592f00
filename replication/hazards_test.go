package replication

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A follower has acknowledged a record when the leader dies, and does not know that the record is
// committed. The follower is cut off from the next leader, which dies as well, so only the
// follower has the record. A truncation to the high watermark, as in Kafka's followers before
// KIP-101, would lose it.
func TestFollowerKeepsWhatItHasAcknowledgedAboveItsHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, newDisks(4).config())
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
			Assignment: [][]int32{{1, 2, 3}}, Properties: properties("min.insync.replicas", "2"),
		}))
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		synctest.Wait()
		paths := []NetworkPath{{From: 1, To: 2}, {From: 1, To: 3}, {From: 2, To: 3}, {From: 3, To: 2}}
		done := make(chan error, 1)
		c.Produce(&partition.ProduceRequest{
			TopicPartition: at("orders", 0), Batch: batch("b"), Acks: record.AcksAll, Timeout: time.Hour,
			Done: func(r partition.ProduceResult) { // before any follower has the high watermark
				for _, p := range paths {
					c.Network().Cut(p)
				}
				done <- r.Err
			},
		})
		require.NoError(t, <-done)
		synctest.Wait()
		require.NoError(t, c.KillBroker(1))
		require.EqualValues(t, 2, c.Leader("orders", 0))
		synctest.Wait()
		require.NoError(t, c.KillBroker(2))
		require.EqualValues(t, 3, c.Leader("orders", 0))
		for _, p := range paths {
			c.Network().Mend(p)
		}
		require.NoError(t, c.StartBroker(t.Context(), 1))
		require.NoError(t, c.StartBroker(t.Context(), 2))
		inSync(t, c, at("orders", 0), 3)
		require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)))
	})
}

// Followers store every batch of the leader, whatever their own settings for sizes, keys, times
// and compression. A follower that rejected a batch would never get past it.
func TestFollowerTakesWhatItWouldRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, newDisks(3).config())
		for _, strict := range []int32{2, 3} {
			for key, value := range map[string]string{
				"message.max.bytes": "200", "log.cleanup.policy": "compact", "log.message.timestamp.before.max.ms": "1", "compression.type": "gzip",
			} {
				require.NoError(t, c.AlterBrokerConfig(t.Context(), strict, ConfigChange{Key: key, Value: value}))
			}
		}
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2, 3}}}))
		var b record.Builder
		b.Reset(0)
		b.AppendKV(time.Now().Add(-time.Hour).UnixMilli(), nil, make([]byte, 1000), nil)
		old, err := b.Build(record.None)
		require.NoError(t, err)
		produce := func() error {
			done := make(chan error, 1)
			c.Produce(&partition.ProduceRequest{
				TopicPartition: at("orders", 0), Batch: old, Acks: record.AcksAll, Timeout: time.Minute,
				Done: func(r partition.ProduceResult) { done <- r.Err },
			})
			return <-done
		}
		require.NoError(t, produce())
		written := stored(t, c)
		require.NoError(t, c.KillBroker(1))
		require.Positive(t, c.Leader("orders", 0))
		require.Equal(t, written, stored(t, c), "byte for byte")
		require.ErrorIs(t, produce(), partition.ErrRecordTooLarge, "as leader it refuses it")
	})
}

// stored returns the batches of the topic orders, once they are readable.
func stored(t *testing.T, c *Cluster) []byte {
	t.Helper()
	resp, err := c.Fetch(t.Context(), ask("orders", 1, partition.FetchRequest{MaxWait: time.Minute, MinBytes: 1}))
	require.NoError(t, err)
	require.NoError(t, resp.Partitions[0].Err)
	return resp.Partitions[0].Bytes
}

// All brokers lose power at once, and some have records that were not acknowledged. Under
// SyncOnAck nothing else is lost. So each replica keeps its place, and one leads at once in a new
// epoch. The epoch is new because followers may still have records that the leader has lost.
func TestPowerCutOfAllBrokersCostsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		before := c.Status("orders", 0)
		mend := ds[before.Leader-1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: time.Hour})
		c.Produce(&partition.ProduceRequest{
			TopicPartition: at("orders", 0), Batch: batch("b"), Acks: record.AcksAll, Timeout: time.Hour,
			Done: func(partition.ProduceResult) {}, // the leader never syncs it
		})
		time.Sleep(time.Second)
		dead := ds.crash()
		mend()
		require.NoError(t, c.Close())
		c = openWith(t, dead.config())
		after := c.Status("orders", 0)
		require.ElementsMatch(t, before.ISR, after.ISR)
		require.Positive(t, after.Leader)
		require.Greater(t, after.LeaderEpoch, before.LeaderEpoch)
		require.Zero(t, c.Stats().UncleanElections)
		require.NoError(t, all(c, at("orders", 0), "last").Err) // all earlier records are readable
		require.Equal(t, "a", values(t, c, at("orders", 0))[0])
	})
}
