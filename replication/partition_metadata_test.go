package replication

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A request may name each of the partitions, which was quadratic.
func TestMetadataOfOnePartitionCostsTheSameBesideManyOthers(t *testing.T) {
	c := open(t, vfs.Mem())
	const partitions, calls = 2_000, 1_000
	require.NoError(t, c.CreateTopic(t.Context(), "wide", topic.Config{Partitions: partitions}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for p := range int32(calls) {
		md, err := c.PartitionMetadata(t.Context(), record.TopicPartition{Topic: "wide", Partition: p})
		require.NoError(t, err)
		require.EqualValues(t, 1, md.Leader)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(calls*partitions*10), "bytes")
	for _, p := range []int32{-1, partitions} {
		_, err := c.PartitionMetadata(t.Context(), record.TopicPartition{Topic: "wide", Partition: p})
		require.ErrorIs(t, err, ErrUnknownTopic)
	}
}
