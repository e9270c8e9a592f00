package coordinator

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
)

// guardedLog is a heldLog whose queries about transactions the test answers.
type guardedLog struct {
	heldLog
	asked    []func(error)
	versions []int16 // by marker
}

func (l *guardedLog) AppendMarker(marker []byte, version int16, done func(error)) {
	l.mu.Lock()
	l.versions = append(l.versions, version)
	l.mu.Unlock()
	l.Append(marker, done)
}

func (l *guardedLog) Log(int32, Leadership) (Log, error) { return l, nil }

func (l *guardedLog) GuardTransaction(_ partition.TxnWrite, done func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, done)
}

// guards is a shard over a guardedLog, with the requests of a producer.
type guards struct {
	*testing.T
	*guardedLog
	s *Shard[*noter, noted, string]
}

// begin starts a request in a transaction of producer 7 in epoch 3.
func (g *guards) begin() (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		_, err := g.s.doInTxn(g.Context(), "x", partition.TxnWrite{TransactionalID: "t", ProducerID: 7, ProducerEpoch: 3, Version: 2}, func(q *Request[*noter, noted, string]) {
			q.Answer(nil, nil)
		})
		ended <- err
	}()
	synctest.Wait()
	return ended
}

func (g *guards) end(epoch, version int16) (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		ended <- g.s.EndTransaction(g.Context(), Marker{ProducerID: 7, ProducerEpoch: epoch, Version: version})
	}()
	synctest.Wait()
	return ended
}

// let answers the oldest query.
func (g *guards) let(err error) {
	require.NotEmpty(g, g.asked)
	done := g.asked[0]
	g.asked = g.asked[1:]
	done(err)
	synctest.Wait()
}

func withGuards(t *testing.T, test func(g *guards)) {
	synctest.Test(t, func(t *testing.T) {
		l := &guardedLog{}
		r := noters(l, nil)
		defer r.Close()
		n, err := r.Partitions(t.Context(), false)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		s, err := r.Shard(0)
		require.NoError(t, err)
		test(&guards{t, l, s})
	})
}

func TestMarkerThatComesMeanwhileHasThePartitionAskedAgain(t *testing.T) {
	withGuards(t, func(g *guards) {
		commit := g.begin()
		marker := g.end(3, 0)
		g.let(nil)
		require.Empty(t, commit)
		require.Empty(t, g.asked, "until the partition has the marker it takes the transaction for open")
		g.answer(nil)
		require.NoError(t, <-marker)
		synctest.Wait()
		require.Empty(t, commit)
		g.let(partition.ErrTxnAbortable)
		require.ErrorIs(t, <-commit, partition.ErrTxnAbortable)

		commit = g.begin() // and for a known producer
		marker = g.end(3, 0)
		g.answer(nil)
		require.NoError(t, <-marker)
		g.let(nil)
		require.Empty(t, commit)
		g.let(nil)
		require.NoError(t, <-commit)
	})
}

// The request has the epoch of the next transaction, which the marker does not end.
func TestMarkerOfVersion2LeavesTheNextTransactionsRequest(t *testing.T) {
	withGuards(t, func(g *guards) {
		marker := g.end(2, 2) // makes the producer known
		g.answer(nil)
		require.NoError(t, <-marker)
		commit := g.begin()
		marker = g.end(3, 2)
		g.let(nil)
		require.NoError(t, <-commit)
		g.answer(nil)
		require.NoError(t, <-marker)
		require.Equal(t, []int16{2, 2}, g.versions)
	})
}

// The partition accepted the first query for the shard before it was loaded again.
func TestShardThatIsLoadedAgainAsksAgain(t *testing.T) {
	withGuards(t, func(g *guards) {
		marker := g.end(2, 2)
		g.answer(nil)
		require.NoError(t, <-marker)
		commit := g.begin()
		marker = g.end(2, 2)
		g.answer(errors.New("the disk has failed"))
		require.ErrorIs(t, <-marker, machine.ErrNotLeader)
		g.let(nil)
		require.Empty(t, commit)
		g.let(nil)
		require.NoError(t, <-commit)
	})
}

func TestRequestInATransactionEndsWithItsContext(t *testing.T) {
	withGuards(t, func(g *guards) {
		for _, pending := range []bool{false, true} {
			if pending {
				g.end(3, 0)
			}
			ctx, cancel := context.WithCancel(g.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := g.s.doInTxn(ctx, "x", partition.TxnWrite{ProducerID: 7, ProducerEpoch: 3}, func(*Request[*noter, noted, string]) { panic("not let in") })
				ended <- err
			}()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		}
		g.answer(nil)
	})
}
