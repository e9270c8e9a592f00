package mirror_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The leaders of a source have moved, also of partitions and in epochs without records.
func TestCopyOfASourceWhoseLeadersHaveMovedIsPromoted(t *testing.T) {
	bubble(t, func(t *testing.T, _ *world) {
		from, err := strata.Open(strata.Config{Brokers: 2})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, from.Close()) })
		for _, name := range []string{"t", "empty"} {
			require.NoError(t, from.CreateTopic(t.Context(), name, topic.Config{Partitions: partitions, ReplicationFactor: 2}))
		}
		move := func() {
			for _, name := range []string{"t", "empty"} {
				for p := range int32(partitions) {
					tp := record.TopicPartition{Topic: name, Partition: p}
					to := 3 - from.Backend().Leader(name, p)
					require.NoError(t, from.Backend().TransferLeader(t.Context(), tp, to))
				}
			}
		}
		for i := range 3 {
			move()
			fill(t, from, 30*i, 30)
		}
		move()
		disk := vfs.Mem()
		c, stop := caughtUp(t, from, disk, "empty")
		want := rows(t, from, "t")
		require.NoError(t, stop())
		require.NoError(t, c.Close())
		c = openCopy(t, from, disk, "empty") // it knows the epochs of its logs
		md, err := c.Metadata(t.Context(), "t")
		require.NoError(t, err)
		for _, p := range md.Topics["t"].Partitions {
			require.Positive(t, p.LeaderEpoch)
		}
		require.NoError(t, c.Close())

		local, _ := promoted(t, disk)
		require.Equal(t, want, rows(t, local, "t"))
		fill(t, local, 90, 30)
		require.Len(t, rows(t, local, "t")[0], len(want[0])+10)
		mine, err := local.Metadata(t.Context(), "t")
		require.NoError(t, err)
		for p, info := range mine.Topics["t"].Partitions {
			require.Greater(t, info.LeaderEpoch, md.Topics["t"].Partitions[p].LeaderEpoch, "records have the epochs of their leaders")
		}
	})
}
