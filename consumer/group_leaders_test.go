package consumer_test

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// movedLeaders is a backend whose metadata reports another leader of every partition once moved is
// set.
type movedLeaders struct {
	consumer.Backend
	moved atomic.Bool
}

func (b *movedLeaders) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	md, err := b.Backend.Metadata(ctx, topics...)
	if err != nil || !b.moved.Load() {
		return md, err
	}
	md.Topics = maps.Clone(md.Topics)
	for name, t := range md.Topics {
		t.Partitions = slices.Clone(t.Partitions)
		for i := range t.Partitions {
			t.Partitions[i].Leader++
			t.Partitions[i].LeaderEpoch++
		}
		md.Topics[name] = t
	}
	return md, nil
}

func TestNewLeaderOfAPartitionDoesNotRebalanceItsGroup(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		moving := &movedLeaders{Backend: b}
		m := poll(t, open(t, moving, config(consumer.CommitProcessed)), nil)
		before := waitStable(t, b, "g", 1)
		moving.moved.Store(true)
		// every waiter for new metadata checks it
		require.NoError(t, b.CreateTopic(t.Context(), "other", topic.Config{}))
		time.Sleep(time.Minute)
		after := waitStable(t, b, "g", 1)
		require.Equal(t, before.Generation, after.Generation)
		require.Len(t, m.Assignment(), 2)
		// added partitions are noticed: the metadata is checked
		require.NoError(t, b.AddPartitions(t.Context(), "t", 3))
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 3)
		m.leave(t)
	})
}
