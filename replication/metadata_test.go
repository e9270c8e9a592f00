package replication

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestMetadataTellsOfAllOrOfTheGivenTopics(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 2)
	create(t, c, "__consumer_offsets", 1)
	all, err := c.Metadata(t.Context())
	require.NoError(t, err)
	require.Len(t, all.Topics, 2)
	require.Equal(t, []Broker{{ID: 1}}, all.Brokers)
	require.Equal(t, int32(1), all.Controller)
	require.Len(t, all.ClusterID, 22)
	require.True(t, all.Topics["__consumer_offsets"].Internal)

	some, err := c.Metadata(t.Context(), "orders", "none", "no/ne")
	require.NoError(t, err)
	require.Len(t, some.Topics, 3)
	orders := some.Topics["orders"]
	require.NoError(t, orders.Err)
	require.False(t, orders.ID.IsZero())
	require.Equal(t, []PartitionMetadata{
		{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}, {Leader: 1, Replicas: []int32{1}, ISR: []int32{1}},
	}, orders.Partitions)
	require.ErrorIs(t, some.Topics["none"].Err, ErrUnknownTopic)
	require.ErrorIs(t, some.Topics["no/ne"].Err, ErrInvalidTopic)
	require.Equal(t, int32(-1), c.Leader("none", 0))
	require.Equal(t, int32(-1), c.Leader("orders", 2))
	require.Equal(t, int32(1), c.Controller())
	require.Equal(t, []int32{1}, c.Brokers())
}

func TestMetadataVersionGrowsWithEveryChangeAndOverRestarts(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	version := func(c *Cluster) int64 {
		m, err := c.Metadata(t.Context())
		require.NoError(t, err)
		return m.Version
	}
	last := version(c)
	for _, change := range []func() error{
		func() error { return c.CreateTopic(t.Context(), "a", topic.Config{}) },
		func() error { return c.AddPartitions(t.Context(), "a", 2) },
		func() error { return c.AlterTopic(t.Context(), "a", properties("retention.ms", "1")) },
		func() error { return c.DeleteTopic(t.Context(), "a") },
	} {
		require.NoError(t, change())
		require.Greater(t, version(c), last)
		last = version(c)
	}
	require.GreaterOrEqual(t, version(open(t, fsys.Kill())), last)
}

func TestWaitMetadataReturnsWithTheNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{})
		require.NoError(t, err)
		m, err := c.Metadata(t.Context())
		require.NoError(t, err)
		now, err := c.WaitMetadata(t.Context(), m.Version-1)
		require.NoError(t, err)
		require.Equal(t, m.Version, now, "it is above that already")

		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				v, err := c.WaitMetadata(t.Context(), m.Version)
				require.NoError(t, err)
				require.Greater(t, v, m.Version)
				require.Equal(t, time.Hour, time.Since(start))
			})
		}
		synctest.Wait()
		require.Equal(t, 10, c.Stats().MetadataWaits)
		time.Sleep(time.Hour)
		require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{}))
		wg.Wait()
		require.Zero(t, c.Stats().MetadataWaits)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.WaitMetadata(ctx, 1<<40)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, c.Stats().MetadataWaits, "whoever gives up leaves nothing behind")
		wg.Go(func() {
			_, err := c.WaitMetadata(context.Background(), 1<<40)
			require.ErrorIs(t, err, ErrClosed)
		})
		synctest.Wait()
		require.NoError(t, c.Close())
		wg.Wait()
		_, err = c.WaitMetadata(t.Context(), 0)
		require.ErrorIs(t, err, ErrClosed)
		_, err = c.Metadata(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	})
}
