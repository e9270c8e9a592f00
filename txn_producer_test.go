package strata_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

func TestProducerWritesInTransactionsOfACluster(t *testing.T) {
	for name, level := range map[string]int16{"default": 0, "version 1": 1, "version 0": transaction.LevelZero} {
		c, err := strata.Open(strata.Config{Brokers: 3, Transactions: transaction.Config{Version: level}})
		require.NoError(t, err, name)
		require.NoError(t, c.CreateTopic(t.Context(), "accounts", topic.Config{Partitions: 3, ReplicationFactor: 3}))
		p, err := producer.New(c, producer.Config{TransactionalID: "teller"})
		require.NoError(t, err)
		transfer := func(tx *producer.Txn) error {
			return tx.Send(t.Context(), record.String("accounts", "anna", "-10").To(0), record.String("accounts", "ben", "+10").To(2))
		}
		require.NoError(t, p.Transact(t.Context(), transfer), name)
		tx, err := p.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, transfer(tx))
		require.NoError(t, tx.Abort(t.Context()), name)
		require.NoError(t, p.Transact(t.Context(), transfer), name)
		next, err := p.Begin(t.Context()) // the last one is marked everywhere when this one can be written
		require.NoError(t, err)
		require.NoError(t, next.Send(t.Context(), record.String("accounts", "carl", "+1").To(1)))
		require.NoError(t, p.Flush(t.Context()))
		seen := 0
		for _, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "accounts"}) {
			require.NoError(t, err)
			seen++
		}
		require.Equal(t, 4, seen, name)
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	}
}

// Checklist row 72: what was committed is seen by whoever opens the cluster after an orderly end,
// at once. A commit is confirmed before its markers are written.
func TestWhatWasCommittedBeforeCloseIsReadAfterOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, seen := vfs.Mem(), 0
		for n := range 30 {
			c, err := strata.Open(strata.Config{FS: disk, Dir: "data"})
			require.NoError(t, err)
			if n == 0 {
				require.NoError(t, c.CreateTopic(t.Context(), "accounts", topic.Config{Partitions: 3}))
			}
			seen = 0
			for _, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "accounts"}) {
				require.NoError(t, err)
				seen++
			}
			require.Equal(t, 3*n, seen)
			p, err := producer.New(c, producer.Config{TransactionalID: "teller"})
			require.NoError(t, err)
			require.NoError(t, p.Transact(t.Context(), func(tx *producer.Txn) error {
				return tx.Send(t.Context(), record.String("accounts", "anna", "-10").To(0), record.String("accounts", "ben", "+10").To(2), record.String("accounts", "carl", "+1").To(1))
			}))
			require.NoError(t, c.Close())
			require.NoError(t, p.Close())
		}
	})
}
