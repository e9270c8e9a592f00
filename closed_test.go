package strata_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// closedCalls are calls of clients that wait for the cluster, by name. Each function prepares a
// call while the cluster is open.
var closedCalls = map[string]func(t *testing.T, c *strata.Cluster) (call func(context.Context) error){
	"Send": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		p := closedProducer(t, c, producer.Config{})
		return func(ctx context.Context) error { _, err := p.Send(ctx, record.String("a", "", "two")); return err }
	},
	"Txn.Send": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		tx := closedTxn(t, c)
		return func(ctx context.Context) error {
			return errors.Join(tx.Send(ctx, record.String("a", "", "two")), tx.Commit(ctx))
		}
	},
	"Txn.Commit": func(t *testing.T, c *strata.Cluster) func(context.Context) error { return closedTxn(t, c).Commit },
	"Txn.Abort":  func(t *testing.T, c *strata.Cluster) func(context.Context) error { return closedTxn(t, c).Abort },
	"Begin after Abort": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		p := closedProducer(t, c, producer.Config{TransactionalID: "x"})
		tx, err := p.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Send(t.Context(), record.String("a", "", "one")))
		return func(ctx context.Context) error {
			_ = tx.Abort(ctx)
			_, err := p.Begin(ctx)
			return err
		}
	},
	"InitTransactions": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		closedTxn(t, c) // so that the coordinator is known
		return closedProducer(t, c, producer.Config{TransactionalID: "y"}).InitTransactions
	},
	"Transact": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		p := closedProducer(t, c, producer.Config{TransactionalID: "x"})
		return func(ctx context.Context) error {
			return p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, record.String("a", "", "one")) })
		}
	},
	"Transform": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		in, out := closedMember(t, c, consumer.Config{Commit: consumer.CommitManual}), closedProducer(t, c, producer.Config{TransactionalID: "x"})
		return func(ctx context.Context) error {
			return consumer.Transform(ctx, in, out, func(record.Record, func(record.Record)) error { return nil })
		}
	},
	"Poll of a classic member": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m := closedMember(t, c, consumer.Config{})
		return func(ctx context.Context) error { _, err := m.Poll(ctx); return err }
	},
	"Poll of a member of the newer protocol": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m := closedMember(t, c, consumer.Config{Protocol: consumer.ProtocolConsumer})
		return func(ctx context.Context) error { _, err := m.Poll(ctx); return err }
	},
	"first Poll": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m, err := consumer.New(c, consumer.Config{Group: "g", Topics: []string{"a"}})
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		return func(ctx context.Context) error { _, err := m.Poll(ctx); return err }
	},
	"Poll of a free consumer": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m, err := consumer.New(c, consumer.Config{Topics: []string{"a"}})
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		return func(ctx context.Context) error { _, err := m.Poll(ctx); return err }
	},
	"Committed": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m := closedMember(t, c, consumer.Config{Commit: consumer.CommitManual})
		return func(ctx context.Context) error { _, err := m.Committed(ctx); return err }
	},
	"Committed of the newer protocol": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m := closedMember(t, c, consumer.Config{Commit: consumer.CommitManual, Protocol: consumer.ProtocolConsumer})
		return func(ctx context.Context) error { _, err := m.Committed(ctx); return err }
	},
	"Run": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m := closedMember(t, c, consumer.Config{})
		return func(ctx context.Context) error {
			return m.Run(ctx, func(context.Context, record.Record) error { return nil }, consumer.RunConfig{})
		}
	},
	"Poll of a share consumer": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		m, err := consumer.NewShare(c, consumer.ShareConfig{Group: "s", Topics: []string{"a"}})
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = m.Poll(ctx)
		return func(ctx context.Context) error { _, err := m.Poll(ctx); return err }
	},
	"WaitGroup": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		closedMember(t, c, consumer.Config{})
		return func(ctx context.Context) error { _, err := c.WaitGroup(ctx, "g", group.StableWith(7)); return err }
	},
	"ResetOffsets": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		closedMember(t, c, consumer.Config{})
		return func(ctx context.Context) error {
			return c.ResetOffsets(ctx, "other", record.Offsets{{Topic: "a"}: 1})
		}
	},
	"Lags": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		closedMember(t, c, consumer.Config{})
		return func(ctx context.Context) error { _, err := c.Lags(ctx); return err }
	},
	"Transactions": func(t *testing.T, c *strata.Cluster) func(context.Context) error {
		closedTxn(t, c)
		return func(ctx context.Context) error { _, err := c.Transactions(ctx); return err }
	},
}

func closedProducer(t *testing.T, c *strata.Cluster, cfg producer.Config) *producer.Producer {
	p, err := producer.New(c, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// closedTxn returns an open transaction with a record.
func closedTxn(t *testing.T, c *strata.Cluster) *producer.Txn {
	tx, err := closedProducer(t, c, producer.Config{TransactionalID: "x"}).Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, tx.Send(t.Context(), record.String("a", "", "one")))
	return tx
}

// closedMember returns a member that has read a record.
func closedMember(t *testing.T, c *strata.Cluster, cfg consumer.Config) *consumer.Consumer {
	_, err := closedProducer(t, c, producer.Config{}).Send(t.Context(), record.String("a", "", "one"))
	require.NoError(t, err)
	cfg.Group, cfg.Topics = "g", []string{"a"}
	m, err := consumer.New(c, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	_, err = m.Poll(t.Context())
	require.NoError(t, err)
	return m
}

// Checklist row L1. The limit of a second allows for the client's own pauses.
func TestCallsOfClientsEndWhenTheirClusterIsClosed(t *testing.T) {
	for name, prepare := range closedCalls {
		for _, during := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, err := strata.Open(strata.Config{})
					require.NoError(t, err)
					require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{}))
					call := prepare(t, c)
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					ended := make(chan error, 1)
					if during {
						go func() { ended <- call(ctx) }()
						synctest.Wait()
					}
					require.NoError(t, c.Close())
					began := time.Now()
					if !during {
						go func() { ended <- call(ctx) }()
					}
					err = <-ended
					require.LessOrEqual(t, time.Since(began), time.Second, "%v", err)
					if err == nil {
						require.True(t, during, "no error")
						return // it succeeded before the close
					}
					closed := false
					for _, is := range []error{replication.ErrClosed, group.ErrClosed, transaction.ErrClosed, share.ErrClosed, consumer.ErrClosed, producer.ErrClosed} {
						closed = closed || errors.Is(err, is)
					}
					require.True(t, closed, "%v", err)
				})
			})
		}
	}
}

// A Shutdown beside a Close of another caller waits as long as its own context allows.
func TestEveryCallerOfShutdownWaitsByItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		c, err := strata.Open(strata.Config{FS: fsys, Dir: "data"})
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		fsys.Inject(vfs.Fault{Ops: vfs.OpAny, Times: vfs.Always, Delay: 100 * time.Millisecond})
		begin := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			asked := time.Now()
			require.ErrorIs(t, c.Shutdown(ctx), context.DeadlineExceeded)
			require.Equal(t, wait, time.Since(asked))
			cancel()
		}
		require.NoError(t, c.Shutdown(t.Context()), "the same closing")
		require.NoError(t, <-closed)
		require.Greater(t, time.Since(begin), 100*time.Millisecond)
		require.NoError(t, c.Close())
	})
}
