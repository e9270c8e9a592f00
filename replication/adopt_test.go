package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestAdoptedTopicsGoOnInTheirLeaderEpochs(t *testing.T) {
	fsys, id := vfs.Mem(), topic.NewID()
	cluster := topic.NewID().String()
	cfg := Config{FS: fsys, Dir: "data", ClusterID: cluster}
	c, err := Open(cfg)
	require.NoError(t, err)
	require.Equal(t, cluster, c.ClusterID())
	adopted := AdoptedTopic{TopicSpec{"a", topic.Config{ID: id, Partitions: 2, Properties: map[string]string{"retention.ms": "77"}}}, []int32{7, 0}}
	require.NoError(t, c.AdoptTopics(t.Context(), adopted))
	adopted.Name, adopted.LeaderEpochs = "b", nil
	require.ErrorIs(t, c.AdoptTopics(t.Context(), adopted), ErrInvalidPartitions)
	adopted.LeaderEpochs = []int32{1, 1}
	require.ErrorIs(t, c.AdoptTopics(t.Context(), adopted), ErrTopicIDInUse)
	require.NoError(t, c.Close())

	cfg.ClusterID = topic.NewID().String() // an existing cluster keeps its own id
	c, err = Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, cluster, c.ClusterID())
	m, err := c.Metadata(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, id, m.Topics["a"].ID)
	require.GreaterOrEqual(t, m.Topics["a"].Partitions[0].LeaderEpoch, int32(7))
	require.Less(t, m.Topics["a"].Partitions[1].LeaderEpoch, int32(7))
	produce(t, c, at("a", 0), "x")

	_, err = Open(Config{ClusterID: "short"})
	require.ErrorContains(t, err, "ClusterID")
}

func TestSkippedProducerIDsAreNotGivenOut(t *testing.T) {
	fsys := vfs.Mem()
	for _, next := range []int64{5000, 5000, 4000, 1 << 40} {
		c, err := Open(Config{FS: fsys, Dir: "data"})
		require.NoError(t, err)
		require.NoError(t, c.SkipProducerIDs(t.Context(), next))
		id, _, err := c.InitProducerID(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, id, next)
		require.Less(t, id, next+4*producerIDBlock, "nor are more skipped")
		require.NoError(t, c.SkipProducerIDs(t.Context(), 0))
		again, _, err := c.InitProducerID(t.Context())
		require.NoError(t, err)
		require.Equal(t, id+1, again)
		require.NoError(t, c.Close())
	}
}
