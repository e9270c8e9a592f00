package systest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
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
		p, err := producer.New(over(t, c), producer.Config{TransactionalID: "teller"})
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
		// next can write once the last transaction's markers are everywhere.
		next, err := p.Begin(t.Context())
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

// Checklist row 72: a reader sees committed records at once after an orderly close and open. A
// commit is confirmed before its markers are written.
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
			p, err := producer.New(over(t, c), producer.Config{TransactionalID: "teller"})
			require.NoError(t, err)
			require.NoError(t, p.Transact(t.Context(), func(tx *producer.Txn) error {
				return tx.Send(t.Context(), record.String("accounts", "anna", "-10").To(0), record.String("accounts", "ben", "+10").To(2), record.String("accounts", "carl", "+1").To(1))
			}))
			require.NoError(t, c.Close())
			require.NoError(t, p.Close())
		}
	})
}

// Checklist row R16. The cluster removes an id that long after its last transaction
// (transactional.id.expiration.ms). The producer is fenced only if another one has taken the id.
func TestTransactionalProducerContinuesWhenItsIDHasExpired(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprintf("taken %v", taken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := strata.Open(strata.Config{Transactions: transaction.Config{Expiration: time.Hour}})
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Properties: map[string]string{"retention.ms": "-1"}}))
				open := func() *producer.Producer {
					p, err := producer.New(over(t, c), producer.Config{TransactionalID: "x"})
					require.NoError(t, err)
					return p
				}
				send := func(p *producer.Producer) error {
					return p.Transact(t.Context(), func(tx *producer.Txn) error { return tx.Send(t.Context(), record.String("a", "", "v")) })
				}
				p := open()
				defer p.Close()
				require.NoError(t, send(p))
				time.Sleep(3 * time.Hour)
				if taken {
					other := open()
					defer other.Close()
					require.NoError(t, send(other))
				}
				if err = send(p); err != nil && !errors.Is(err, producer.ErrFatal) {
					err = send(p) // the first transaction had to be aborted
				}
				if taken {
					require.ErrorIs(t, err, producer.ErrFenced)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

// Checklist row R16.
func TestTransformContinuesWhenItsIDHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{Transactions: transaction.Config{Expiration: time.Hour}})
		require.NoError(t, err)
		defer c.Close()
		for _, name := range []string{"in", "out"} {
			require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{}))
		}
		in, err := consumer.New(over(t, c), consumer.Config{Group: "g", Topics: []string{"in"}, Isolation: consumer.ReadCommitted})
		require.NoError(t, err)
		defer in.Close()
		out, err := producer.New(over(t, c), producer.Config{TransactionalID: "x"})
		require.NoError(t, err)
		defer out.Close()
		source, err := producer.New(over(t, c), producer.Config{})
		require.NoError(t, err)
		defer source.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- consumer.Transform(ctx, in, out, func(r record.Record, emit func(record.Record)) error {
				emit(record.String("out", "", string(r.Value)))
				return nil
			})
		}()
		for _, value := range []string{"one", "two"} {
			_, err := source.Send(t.Context(), record.String("in", "", value))
			require.NoError(t, err)
			time.Sleep(3 * time.Hour)
		}
		cancel()
		require.NoError(t, <-ended)
		var got []string
		for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "out", Isolation: consumer.ReadCommitted}) {
			require.NoError(t, err)
			got = append(got, string(r.Value))
		}
		require.Equal(t, []string{"one", "two"}, got)
	})
}
