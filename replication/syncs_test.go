package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestStartingAndTheFirstRecordTakeFewSyncs(t *testing.T) {
	fsys := vfs.Faulty(vfs.Mem())
	c, err := Open(Config{Dir: "data", FS: fsys})
	require.NoError(t, err)
	syncs := func() int64 { return fsys.Count(vfs.OpSync | vfs.OpSyncDir) }
	require.NoError(t, c.CreateTopic(t.Context(), "first", topic.Config{}))
	awaitFounding(c)
	founded := syncs()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3}))
	created := syncs()
	produce(t, c, at("orders", 0), "first")
	written := syncs()
	require.NoError(t, c.Close())
	closed := syncs()
	c, err = Open(Config{Dir: "data", FS: fsys})
	require.NoError(t, err)
	again := syncs()
	require.NoError(t, c.Close())
	t.Logf("found %d, create %d, first record %d, open again %d", founded, created-founded, written-created, again-closed)
	require.LessOrEqual(t, founded, int64(10), "the directory and its parents, meta.properties, the metadata log's directory, its first batches and its state")
	require.LessOrEqual(t, created-founded, int64(1), "the records")
	require.LessOrEqual(t, written-created, int64(8), "the partition's directory, name, epoch, state and the record")
	require.LessOrEqual(t, again-closed, int64(7), "the epoch, the registration, and what a close in order has to take back")
}
