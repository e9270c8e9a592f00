package replication

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// viewed creates the topic "orders" with partition 0 on broker 1 and partition 1 on broker 2. Each
// has one record.
func viewed(t *testing.T) *Cluster {
	c := openBrokers(t, vfs.Mem(), 2)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1}, {2}}, Partitions: 2, ReplicationFactor: 1}))
	produce(t, c, at("orders", 0), "first")
	produce(t, c, at("orders", 1), "first")
	return c
}

// viewQuestions are the calls of a View, reduced to their errors.
var viewQuestions = map[string]func(context.Context, View, record.TopicPartition) error{
	"produce": func(_ context.Context, v View, tp record.TopicPartition) error {
		done := make(chan error, 1)
		v.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch("more"), Acks: record.AcksAll, Done: func(r partition.ProduceResult) { done <- r.Err }})
		return <-done
	},
	"fetch": func(ctx context.Context, v View, tp record.TopicPartition) error {
		got, err := v.Fetch(ctx, &partition.FetchRequest{Partitions: []partition.FetchPartition{{TopicPartition: tp, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
		if err != nil {
			return err
		}
		return got.Partitions[0].Err
	},
	"list offsets": func(ctx context.Context, v View, tp record.TopicPartition) error {
		got, err := v.ListOffsets(ctx, map[record.TopicPartition]partition.OffsetSpec{tp: partition.Latest}, partition.ReadUncommitted)
		if err != nil {
			return err
		}
		return got[tp].Err
	},
	"delete records": func(ctx context.Context, v View, tp record.TopicPartition) error {
		_, err := v.DeleteRecords(ctx, map[record.TopicPartition]int64{tp: 0})
		return err
	},
	"producers": func(ctx context.Context, v View, tp record.TopicPartition) error {
		_, err := v.Producers(ctx, tp)
		return err
	},
	"end of an epoch": func(ctx context.Context, v View, tp record.TopicPartition) error {
		_, _, err := v.EpochEnd(ctx, tp, -1, 0)
		return err
	},
	"leader epoch": func(_ context.Context, v View, tp record.TopicPartition) error { return v.CheckLeaderEpoch(tp, -1) },
	"partition": func(_ context.Context, v View, tp record.TopicPartition) error {
		_, err := v.Partition(tp)
		return err
	},
	"written": func(_ context.Context, v View, tp record.TopicPartition) error {
		_, err := v.Written(tp)
		return err
	},
}

func TestViewOfABrokerServesWhatItLeads(t *testing.T) {
	c := viewed(t)
	for name, ask := range viewQuestions {
		for broker := int32(-1); broker <= 3; broker++ {
			for p := range int32(2) {
				err := ask(t.Context(), c.View(broker), at("orders", p))
				if broker == p+1 {
					require.NoError(t, err, "%s of %d asked for %d", name, broker, p)
				} else {
					require.ErrorIs(t, err, ErrNotLeader, "%s of %d asked for %d", name, broker, p)
				}
			}
			require.ErrorIs(t, ask(t.Context(), c.View(broker), at("orders", 2)), ErrUnknownTopic, name)
		}
	}
	require.Equal(t, []string{"first", "more"}, values(t, c, at("orders", 0)), "what was refused left nothing")
	require.Equal(t, []string{"first", "more"}, values(t, c, at("orders", 1)))
}

// A broker without a replica returns ErrNotLeader, whatever epoch the caller has.
func TestEpochsAreNotComparedWithoutAReplica(t *testing.T) {
	c := viewed(t)
	for _, epoch := range []int32{0, 7} {
		require.ErrorIs(t, c.View(1).CheckLeaderEpoch(at("orders", 1), epoch), ErrNotLeader)
		_, _, err := c.View(1).EpochEnd(t.Context(), at("orders", 1), epoch, 0)
		require.ErrorIs(t, err, ErrNotLeader)
	}
	require.ErrorIs(t, c.View(2).CheckLeaderEpoch(at("orders", 1), 7), partition.ErrUnknownLeaderEpoch)
	_, _, err := c.View(2).EpochEnd(t.Context(), at("orders", 1), 7, 0)
	require.ErrorIs(t, err, partition.ErrUnknownLeaderEpoch)
}

// A follower compares epochs before it returns ErrNotLeader. So a caller with an older or newer
// epoch gets the error for it from any replica.
func TestEpochsAreComparedByEveryReplica(t *testing.T) {
	c := openBrokers(t, vfs.Mem(), 3)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1, Assignment: [][]int32{{1, 2}}, ReplicationFactor: 2}))
	require.NoError(t, c.StopBroker(t.Context(), 1))
	require.NoError(t, c.StartBroker(t.Context(), 1))
	tp := at("t", 0)
	md, err := c.Metadata(t.Context(), "t")
	require.NoError(t, err)
	leads := md.Topics["t"].Partitions[0]
	require.Positive(t, leads.LeaderEpoch, "one is over")
	follower := 3 - leads.Leader
	for _, tc := range []struct {
		broker, epoch int32
		want          error
	}{
		{leads.Leader, -1, nil}, {leads.Leader, leads.LeaderEpoch, nil},
		{leads.Leader, leads.LeaderEpoch - 1, partition.ErrFencedLeaderEpoch}, {leads.Leader, leads.LeaderEpoch + 1, partition.ErrUnknownLeaderEpoch},
		{follower, -1, ErrNotLeader}, {follower, leads.LeaderEpoch, ErrNotLeader},
		{follower, leads.LeaderEpoch - 1, partition.ErrFencedLeaderEpoch}, {follower, leads.LeaderEpoch + 1, partition.ErrUnknownLeaderEpoch},
		{3, leads.LeaderEpoch - 1, ErrNotLeader}, {3, leads.LeaderEpoch + 1, ErrNotLeader},
	} {
		require.ErrorIs(t, c.View(tc.broker).CheckLeaderEpoch(tp, tc.epoch), tc.want, "broker %d, epoch %d", tc.broker, tc.epoch)
		_, _, err := c.View(tc.broker).EpochEnd(t.Context(), tp, tc.epoch, 0)
		require.ErrorIs(t, err, tc.want, "broker %d, epoch %d", tc.broker, tc.epoch)
	}
}

func TestTopicSettingsAreThoseOfTheBroker(t *testing.T) {
	c := viewed(t)
	require.NoError(t, c.AlterBrokerConfig(t.Context(), 2, ConfigChange{Key: "log.retention.ms", Value: "4321"}))
	value := func(broker int32) string {
		s, err := c.View(broker).TopicSettings("orders")
		require.NoError(t, err)
		for _, d := range s.Describe() {
			if d.Key.Name == "retention.ms" {
				return d.Value
			}
		}
		return ""
	}
	require.Equal(t, "4321", value(2))
	require.Equal(t, "604800000", value(1))
	_, err := c.View(1).TopicSettings("order")
	require.ErrorIs(t, err, ErrUnknownTopic)
}
