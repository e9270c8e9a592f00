package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Periodic work on all replicas visits them in the same order each time, and does not sort them
// again.
func TestReplicasAreGoneThroughInOrderAndCheaply(t *testing.T) {
	c := open(t, vfs.Mem())
	n := c.nodes[1]
	order := func() (all []string) {
		for _, r := range n.all() {
			if r.tp.Topic[0] != '_' {
				all = append(all, fmt.Sprintf("%s-%d", r.tp.Topic, r.tp.Partition))
			}
		}
		return all
	}
	require.Empty(t, order())
	create(t, c, "orders", 2)
	create(t, c, "a", 1)
	produce(t, c, at("orders", 1), "x")
	produce(t, c, at("orders", 0), "x")
	produce(t, c, at("a", 0), "x")
	require.Equal(t, []string{"a-0", "orders-0", "orders-1"}, order())
	require.Zero(t, testing.AllocsPerRun(100, func() { n.all() }))
	require.NoError(t, c.DeleteTopic(t.Context(), "a"))
	require.Equal(t, []string{"orders-0", "orders-1"}, order())
	create(t, c, "a", 1)
	produce(t, c, at("a", 0), "x")
	require.Equal(t, []string{"a-0", "orders-0", "orders-1"}, order())
	require.Same(t, n.replica(at("a", 0)), n.all()[0])
}
