package strata_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
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
