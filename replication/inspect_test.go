package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestTopicNameFollowsTheTopic(t *testing.T) {
	c := open(t, vfs.Mem())
	require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{}))
	info, err := c.Topic(t.Context(), "a")
	require.NoError(t, err)
	name, ok := c.TopicName(info.ID)
	require.True(t, ok)
	require.Equal(t, "a", name)
	require.NoError(t, c.DeleteTopic(t.Context(), "a"))
	_, ok = c.TopicName(info.ID)
	require.False(t, ok)
	_, ok = c.TopicName(topic.ID{})
	require.False(t, ok)
}

func TestLookingIntoAPartitionCreatesNoFiles(t *testing.T) {
	c := open(t, vfs.Mem())
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "a", topic.Config{}))
	a0 := record.TopicPartition{Topic: "a"}
	ps, err := c.Producers(ctx, a0)
	require.NoError(t, err)
	require.Empty(t, ps)
	epoch, end, err := c.EpochEnd(ctx, a0, 0, 0)
	require.NoError(t, err)
	require.Equal(t, int32(0), epoch)
	require.Equal(t, int64(0), end)
	for _, unknown := range []int32{-1, 1, 1 << 30} {
		epoch, end, err = c.EpochEnd(ctx, a0, -1, unknown)
		require.NoError(t, err)
		require.Equal(t, int32(-1), epoch)
		require.Equal(t, int64(-1), end)
	}
	_, _, err = c.EpochEnd(ctx, a0, 1, 0)
	require.ErrorIs(t, err, partition.ErrUnknownLeaderEpoch)
	_, _, err = c.EpochEnd(ctx, record.TopicPartition{Topic: "a", Partition: -1}, -1, 0)
	require.ErrorIs(t, err, ErrUnknownTopic)
	_, err = c.Producers(ctx, record.TopicPartition{Topic: "b"})
	require.ErrorIs(t, err, ErrUnknownTopic)
	has, err := c.Written(a0)
	require.NoError(t, err)
	require.False(t, has)
}

func TestEpochEndOfAWrittenPartitionIsItsEnd(t *testing.T) {
	c := open(t, vfs.Mem())
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "a", topic.Config{}))
	a0 := record.TopicPartition{Topic: "a"}
	p, err := c.Partition(a0)
	require.NoError(t, err)
	var b record.Builder
	b.Reset(0)
	b.AppendKV(1, nil, []byte("x"), nil)
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	_, err = p.AppendSync(ctx, batch, record.AcksAll)
	require.NoError(t, err)
	epoch, end, err := c.EpochEnd(ctx, a0, -1, 0)
	require.NoError(t, err)
	require.Equal(t, int32(0), epoch)
	require.Equal(t, int64(1), end)
	require.NoError(t, c.Close())
	_, _, err = c.EpochEnd(ctx, a0, -1, 0)
	require.ErrorIs(t, err, ErrClosed)
}
