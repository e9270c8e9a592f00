package lifecycle

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/txnlog"
)

// A producer is fenced if its epoch is not the epoch of the transaction that it ends, in every
// state of the transaction. Such an epoch is a former one, none, or the epoch reserved for
// markers.
func TestProducersWithEpochsOfOtherTransactionsAreFenced(t *testing.T) {
	for name, tt := range map[string]struct {
		epoch, now int16
		states     []txnlog.State
	}{
		"an epoch long ago":            {3, 9, []txnlog.State{txnlog.Ongoing, txnlog.PrepareCommit, txnlog.PrepareAbort, txnlog.CompleteCommit, txnlog.CompleteAbort}},
		"no epoch":                     {-1, 0, []txnlog.State{txnlog.Ongoing, txnlog.PrepareCommit, txnlog.PrepareAbort, txnlog.CompleteCommit, txnlog.CompleteAbort}},
		"an epoch to come":             {9, 3, []txnlog.State{txnlog.Ongoing, txnlog.PrepareCommit, txnlog.PrepareAbort, txnlog.CompleteCommit, txnlog.CompleteAbort}},
		"the epoch that markers have":  {math.MaxInt16, math.MaxInt16, []txnlog.State{txnlog.Ongoing, txnlog.PrepareCommit, txnlog.PrepareAbort, txnlog.CompleteCommit, txnlog.CompleteAbort}},
		"the last one, which is ended": {lastEpoch, math.MaxInt16, []txnlog.State{txnlog.Ongoing, txnlog.CompleteCommit, txnlog.CompleteAbort}},
	} {
		for _, state := range tt.states {
			for _, commit := range []bool{true, false} {
				m := &Machine{value: &txnlog.Value{ProducerID: 7, PreviousID: -1, NextID: -1, Epoch: tt.now, LastEpoch: -1, State: state}}
				_, err := EventEnd{ProducerID: 7, Epoch: tt.epoch, Commit: commit, Version: 2}.check(m)
				require.ErrorIs(t, err, ErrProducerFenced, "%s, %v", name, state)
			}
		}
	}
}

// When its epochs are used up, a transactional id gets its next producer id while its markers are
// written. That id counts with epoch 0 and no other.
func TestNextProducerIDCountsInItsFirstEpochOnly(t *testing.T) {
	for epoch, want := range map[int16]error{0: ErrConcurrent, 1: ErrInvalidProducerMapping, -1: ErrInvalidProducerMapping, lastEpoch: ErrInvalidProducerMapping} {
		m := &Machine{value: &txnlog.Value{ProducerID: 7, PreviousID: 7, NextID: 8, Epoch: math.MaxInt16, LastEpoch: lastEpoch, State: txnlog.PrepareCommit}}
		_, err := EventEnd{ProducerID: 8, Epoch: epoch, Commit: true, Version: 2}.check(m)
		require.ErrorIs(t, err, want, "epoch %d", epoch)
	}
}
