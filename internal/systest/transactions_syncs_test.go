package systest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A commit is durable after three syncs in turn: of the transaction's begin, of its records and of
// the decision. Successive transactions take four each. Markers have a sync of their own, and the
// end of one transaction shares a sync with the begin of the next.
func TestTransactionsTakeFewSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		c, err := strata.Open(strata.Config{Dir: "data", FS: disk})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{}))
		p, err := producer.New(c, producer.Config{TransactionalID: "x"})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		transact := func() {
			t.Helper()
			tx, err := p.Begin(t.Context())
			require.NoError(t, err)
			require.NoError(t, tx.Send(t.Context(), record.Record{Topic: "t", Value: []byte("v")}))
			require.NoError(t, tx.Commit(t.Context()))
		}
		syncs := func() int64 { return disk.Count(vfs.OpSync | vfs.OpSyncDir) }
		settle := func() {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		transact()
		settle()

		before := syncs()
		transact()
		require.LessOrEqual(t, syncs()-before, int64(4), "three, and the marker's may have been made")
		settle()
		require.Equal(t, int64(5), syncs()-before, "the end of a transaction that none follows is written by itself")

		before = syncs()
		for range 50 {
			transact()
			synctest.Wait() // no time passes, and all immediate writes are done
		}
		settle()
		took := syncs() - before
		require.GreaterOrEqual(t, took, int64(50*4+1))
		require.LessOrEqual(t, took, int64(50*4+10), "an end now and then is written before the next one begins")
	})
}
