package replication

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestRoutingDoesNotAllocate(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 8)
	produce(t, c, at("orders", 5), "x")
	r, err := c.leaderReplica(at("orders", 5), anyBroker)
	require.NoError(t, err)
	// The first append is acknowledged a moment before the partition counts as open.
	require.NotNil(t, r.awaitOpening())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r, err := c.leaderReplica(at("orders", 5), anyBroker)
		if err != nil || r.part.Load() == nil {
			t.Errorf("routing: %v, %v", r, err)
		}
	}))
}

// BenchmarkFetch measures a fetch that finds data in one of its partitions: routing, watermarks,
// one read, the response.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{1, 12, 100} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			c, err := Open(Config{})
			require.NoError(b, err)
			defer c.Close()
			require.NoError(b, c.CreateTopic(b.Context(), "orders", topic.Config{Partitions: n}))
			require.NoError(b, tryProduce(c, at("orders", 0), "value").Err)
			req := ask("orders", n, partition.FetchRequest{})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Fetch(context.Background(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
