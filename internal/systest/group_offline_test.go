package systest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A partition without a leader has an unknown lag. Group returns the partition's error. Lags
// counts it as unknown, and does not take the smaller sum for progress. A reset fails and moves no
// partition of the group. A deleted topic has another error.
func TestLagOfAPartitionThatNobodyLeadsIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{Brokers: 3, Group: group.Config{OffsetsReplicas: 3, OffsetsPartitions: 1}})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1}, {2}}}))
		require.NoError(t, c.CreateTopic(t.Context(), "gone", topic.Config{Partitions: 1}))
		here, away, gone := record.TopicPartition{Topic: "orders"}, record.TopicPartition{Topic: "orders", Partition: 1}, record.TopicPartition{Topic: "gone"}
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for _, tp := range []record.TopicPartition{here, away} {
			sendTo(t, p, tp.Partition, "a", "b", "c", "d", "e")
		}
		require.NoError(t, p.Close())
		require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{here: 2, away: 2, gone: 0}))
		require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
		lags := func() group.GroupLag {
			t.Helper()
			all, err := c.Lags(t.Context())
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
			return all[0]
		}
		lags()
		require.Equal(t, group.GroupLag{Group: "g", State: group.Empty, Lag: 6, Drain: group.DrainNever}, lags())

		require.NoError(t, c.KillBroker(2))
		info, err := c.Group(t.Context(), "g")
		require.NoError(t, err)
		o := info.Offsets[away]
		require.ErrorIs(t, o.Err, replication.ErrNotLeader)
		require.Equal(t, []int64{2, -1, -1, -1}, []int64{o.Offset, o.Start, o.End, o.Lag})
		o = info.Offsets[here]
		require.NoError(t, o.Err)
		require.Equal(t, []int64{2, 0, 5, 3}, []int64{o.Offset, o.Start, o.End, o.Lag})
		if o, known := info.Offsets[gone]; known {
			require.ErrorIs(t, o.Err, group.ErrUnknownTopicOrPartition)
		}
		require.EqualValues(t, 3, info.Lag())
		require.Equal(t, group.GroupLag{Group: "g", State: group.Empty, Lag: 3, Unknown: 1, Drain: group.DrainUnknown}, lags(), "it has not shrunk by half")

		_, err = c.RewindGroup(t.Context(), "g", group.ToEarliest())
		require.ErrorIs(t, err, replication.ErrNotLeader)
		require.ErrorIs(t, c.ResetOffsets(t.Context(), "g", record.Offsets{away: 0}), replication.ErrNotLeader)
		info, err = c.Group(t.Context(), "g")
		require.NoError(t, err)
		require.EqualValues(t, 2, info.Offsets[here].Offset, "nothing was moved")

		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.Equal(t, group.GroupLag{Group: "g", State: group.Empty, Lag: 6, Drain: group.DrainNever}, lags())
		moved, err := c.RewindGroup(t.Context(), "g", group.ToEarliest())
		require.NoError(t, err)
		require.Equal(t, record.Offsets{here: 0, away: 0}, moved)
	})
}
