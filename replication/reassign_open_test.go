package replication

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Reassignments are under way when the cluster closes, and continue when it opens. The first
// leaders that serve request their completion while other brokers still load. A replica that was
// given up before it was found used to stay open, with its directory in use. This happened in one
// of some 500 lives.
func TestReassignmentsGoOnWhileTheClusterOpens(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() || raceEnabled {
		seeds = 10
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // the race needs several processors
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			fs := vfs.Mem()
			for life := range 6 {
				c, err := Open(Config{Brokers: 3, FS: fs, Dir: "data"})
				require.NoError(t, err, "seed %d, life %d", seed, life)
				if life == 0 {
					require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 6, ReplicationFactor: 2}))
				}
				for p := range int32(6) {
					c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", p), Batch: batch("v"), Acks: record.AcksAll, Done: func(partition.ProduceResult) {}})
				}
				for range r.IntN(8) { // refused if no replica that can lead would be left
					to := 1 + r.Int32N(3)
					_ = c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: at("orders", r.Int32N(6)), Replicas: []int32{to, 1 + to%3}})
				}
				for range r.IntN(200) {
					runtime.Gosched()
				}
				require.NoError(t, c.Close(), fmt.Sprintf("seed %d, life %d", seed, life))
			}
		})
	}
}
