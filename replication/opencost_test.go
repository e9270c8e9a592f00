package replication

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Checklist row L4: the cost of a start grows with the partitions that hold data, so each of them
// must cost little. Calls are counted, and time is not: one more call for each partition is 30 ms
// of a start with 10,000.
func TestOpenMakesFewCallsForEachPartition(t *testing.T) {
	for _, tc := range []struct {
		name    string
		stop    func(*testing.T, *Cluster, *vfs.MemFS) *vfs.MemFS
		calls   float64 // of all kinds
		changes float64 // of the disk: nothing is rewritten after a close in order
		reads   float64
	}{
		{name: "closed", calls: 17, changes: 0, reads: 4, stop: func(t *testing.T, c *Cluster, fsys *vfs.MemFS) *vfs.MemFS {
			require.NoError(t, c.Close())
			return fsys
		}},
		{name: "killed", calls: 16, changes: 1, reads: 6, stop: func(_ *testing.T, _ *Cluster, fsys *vfs.MemFS) *vfs.MemFS { return fsys.Kill() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cost := func(partitions int) (ops [3]float64) {
				fsys := vfs.Mem()
				c, err := Open(Config{Dir: "data", FS: fsys})
				require.NoError(t, err)
				require.NoError(t, c.CreateTopic(t.Context(), "big", topic.Config{Partitions: partitions}))
				fill(t, c, partitions)
				after := tc.stop(t, c, fsys)
				kinds := []vfs.Op{vfs.OpAny, vfs.OpChange, vfs.OpRead}
				for i, kind := range kinds {
					ops[i] = -float64(after.Count(kind))
				}
				again, err := Open(Config{Dir: "data", FS: after})
				require.NoError(t, err)
				for i, kind := range kinds {
					ops[i] += float64(after.Count(kind))
				}
				require.Equal(t, partitions, again.Stats().OpenPartitions)
				require.NoError(t, again.Close())
				_ = c.Close()
				return ops
			}
			few, many := cost(10), cost(60)
			var each [3]float64
			for i := range each {
				// A call of the cluster's own goroutines may be in one count and not in the other.
				// One call for each partition is 50.
				each[i] = math.Round((many[i] - few[i]) / 50)
			}
			t.Logf("each partition: %v calls, changes, reads", each)
			require.LessOrEqual(t, each[0], tc.calls, "calls")
			require.LessOrEqual(t, each[1], tc.changes, "changes")
			require.LessOrEqual(t, each[2], tc.reads, "reads")
		})
	}
}
