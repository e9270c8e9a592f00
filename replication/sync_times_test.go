package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestTimesOfSyncsAreKnownByBroker(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 1, "flush.messages", "1")
	before := c.SyncTimes(1)
	produce(t, c, at("orders", 0), "a")
	after := c.SyncTimes(1)
	require.Greater(t, after.Count(), before.Count())
	none := c.SyncTimes(7)
	require.Zero(t, none.Count(), "there is no such broker")
}
