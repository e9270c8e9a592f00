package producer_test

import (
	"cmp"
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// A stuckBackend keeps the first request to store offsets, and returns group.ErrUncertain for it.
type stuckBackend struct {
	producer.TxnBackend
	c *stuckCoordinator
}

func (b stuckBackend) TxnCoordinator() producer.TxnCoordinator { return b.c }

type stuckCoordinator struct {
	producer.TxnCoordinator

	mu    sync.Mutex // guards the field below
	stuck *group.TxnCommitRequest
}

func (c *stuckCoordinator) CommitTxnOffsets(ctx context.Context, r group.TxnCommitRequest) (map[record.TopicPartition]error, error) {
	c.mu.Lock()
	first := c.stuck == nil
	if first {
		c.stuck = &r
	}
	c.mu.Unlock()
	if first {
		return nil, group.ErrUncertain
	}
	return c.TxnCoordinator.CommitTxnOffsets(ctx, r)
}

// A request that was repeated, and whose first attempt reaches the coordinator in a later
// transaction, does not set the group back.
func TestLateOffsetsOfAnEarlierTransactionHaveNoEffect(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx, tp := t.Context(), record.TopicPartition{Topic: "a"}
		backend := w.backend(t)
		c := &stuckCoordinator{TxnCoordinator: backend.TxnCoordinator()}
		p, err := producer.New(stuckBackend{backend, c}, producer.Config{TransactionalID: "id"})
		require.NoError(t, err)
		commit := func(offset int64, before func()) error {
			return p.Transact(ctx, func(tx *producer.Txn) error {
				err := tx.CommitOffsets(ctx, group.Metadata{Group: "g", Generation: -1}, record.Offsets{tp: offset})
				before()
				return err
			})
		}
		require.NoError(t, commit(10, func() {}))
		require.NotNil(t, c.stuck)
		var late error
		require.NoError(t, commit(22, func() {
			per, err := c.TxnCoordinator.CommitTxnOffsets(ctx, *c.stuck)
			late = cmp.Or(err, per[tp])
		}))
		require.Error(t, late, "it is of an earlier epoch")
		synctest.Wait() // the marker is written after the commit
		got, err := w.FetchOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.EqualValues(t, 22, got[tp].Offset)
		require.NoError(t, p.Close())
	})
}
