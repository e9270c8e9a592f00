package partition

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A verifier collects questions about transactions, which the test answers.
type verifier struct{ asked []TxnQuestion }

func (v *verifier) config() Config {
	cfg := testConfig(vfs.Mem())
	cfg.Log.Sync = log.SyncNever
	cfg.Verify = func(q TxnQuestion) { v.asked = append(v.asked, q) }
	return cfg
}

// answer answers the oldest question.
func (v *verifier) answer(err error) {
	q := v.asked[0]
	v.asked = v.asked[1:]
	q.Answer(err)
}

// start sends a batch as a client of a transaction.version, and does not wait.
func start(p *Partition, version int16, s batchSpec) *ProduceResult {
	res := &ProduceResult{BaseOffset: -2}
	s.txn = true
	p.Produce(&ProduceRequest{Batch: s.build(), Acks: record.AcksAll, TransactionalID: "tx", TxnVersion: version, Done: func(r ProduceResult) { *res = r }})
	return res
}

const pending = -2 // base offset while a write of start has no result

func TestFirstWriteOfATransactionWaitsForItsCoordinator(t *testing.T) {
	for _, version := range []int16{0, 2} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			v := &verifier{}
			p := openLeader(t, v.config())
			first := start(p, version, batchSpec{pid: 7, epoch: 3})
			require.EqualValues(t, pending, first.BaseOffset)
			require.Len(t, v.asked, 1)
			require.Equal(t, TxnWrite{TransactionalID: "tx", ProducerID: 7, ProducerEpoch: 3, Version: version}, v.asked[0].TxnWrite)
			require.Equal(t, p.TopicPartition(), v.asked[0].Partition)

			second, third := start(p, version, batchSpec{pid: 7, epoch: 3, seq: 1}), start(p, version, batchSpec{pid: 7, epoch: 3, seq: 2})
			require.Len(t, v.asked, 1, "the answer is the same for all")
			require.Equal(t, 3, p.Stats().AwaitingCoordinator)
			plain := send(p, batchSpec{value: "plain"})
			require.NoError(t, plain.Err, "others do not wait")
			v.answer(nil)
			for i, r := range []*ProduceResult{first, second, third} {
				require.NoError(t, r.Err)
				require.EqualValues(t, i+1, r.BaseOffset, "in the order of the calls")
			}
			require.NoError(t, start(p, version, batchSpec{pid: 7, epoch: 3, seq: 3}).Err)
			require.Empty(t, v.asked, "it is open")
			require.Zero(t, p.Stats().AwaitingCoordinator)

			epoch := int16(3)
			if version == 2 {
				epoch = 4
			}
			require.NoError(t, end(p, TxnMarker{ProducerID: 7, ProducerEpoch: epoch, Commit: true, Version: version}).Err)
			next := start(p, version, batchSpec{pid: 7, epoch: epoch, seq: 4 * int32(1-version/2)})
			require.Len(t, v.asked, 1, "the next transaction")
			v.answer(nil)
			require.NoError(t, next.Err)
		})
	}
}

// A write that the coordinator approved must not be appended behind the marker: no marker would
// end its transaction.
func TestWriteThatComesBehindItsMarkerIsRefused(t *testing.T) {
	for _, version := range []int16{0, 1, 2} {
		for _, mine := range []bool{false, true} {
			t.Run(fmt.Sprint("version ", version, " own guard ", mine), func(t *testing.T) {
				v := &verifier{}
				p := openLeader(t, v.config())
				require.NoError(t, end(p, TxnMarker{ProducerID: 7, ProducerEpoch: 3, Version: version}).Err)
				var guard *TxnGuard
				var late *ProduceResult
				if mine {
					p.GuardTransaction(TxnWrite{TransactionalID: "tx", ProducerID: 7, ProducerEpoch: 3, Version: version}, func(g *TxnGuard, err error) { guard = g })
					v.answer(nil)
					require.NotNil(t, guard)
				} else {
					late = start(p, version, batchSpec{pid: 7, epoch: 3})
				}
				marker := TxnMarker{ProducerID: 7, ProducerEpoch: 3 + version/2, Version: version}
				require.NoError(t, end(p, marker).Err)
				if mine {
					late = &ProduceResult{BaseOffset: pending}
					p.Produce(&ProduceRequest{Batch: batchSpec{pid: 7, epoch: 3, txn: true}.build(), TransactionalID: "tx", Guard: guard, Done: func(r ProduceResult) { *late = r }})
				} else {
					v.answer(nil)
				}
				want := ErrInvalidTxnState
				if version == 2 {
					want = ErrInvalidProducerEpoch
				}
				require.ErrorIs(t, late.Err, want)
				require.Equal(t, p.HighWatermark(), p.LastStableOffset(), "nothing is open")
				require.Empty(t, readAll(t, p, ReadUncommitted))
			})
		}
	}
}

// The marker of version 2 has the epoch of the next transaction. The first write of that
// transaction may have been verified before the marker arrives, or before it arrives again.
func TestMarkerOfVersion2LeavesTheNextTransactionsGuard(t *testing.T) {
	v := &verifier{}
	p := openLeader(t, v.config())
	start(p, 2, batchSpec{pid: 7, epoch: 3})
	v.answer(nil)
	next := start(p, 2, batchSpec{pid: 7, epoch: 4})
	marker := TxnMarker{ProducerID: 7, ProducerEpoch: 4, Commit: true, Version: 2}
	require.NoError(t, end(p, marker).Err)
	require.NoError(t, end(p, marker).Err, "again")
	v.answer(nil)
	require.NoError(t, next.Err)
	require.Equal(t, []seen{{0, "0"}}, readAll(t, p, ReadCommitted))
	require.NoError(t, end(p, TxnMarker{ProducerID: 7, ProducerEpoch: 5, Version: 2}).Err)
	require.Equal(t, p.HighWatermark(), p.LastStableOffset())
}

func TestCoordinatorsRefusalIsTheWritesOwn(t *testing.T) {
	for _, refusal := range []error{ErrConcurrentTransactions, ErrTxnAbortable, ErrProducerIDMapping, ErrInvalidProducerEpoch, ErrNotEnoughReplicas, errors.New("other")} {
		v := &verifier{}
		p := openLeader(t, v.config())
		first, second := start(p, 2, batchSpec{pid: 7}), start(p, 2, batchSpec{pid: 7, seq: 1})
		v.answer(refusal)
		for _, r := range []*ProduceResult{first, second} {
			require.ErrorIs(t, r.Err, refusal)
			require.EqualValues(t, -1, r.BaseOffset)
		}
		require.Zero(t, p.LogEndOffset())
		again := start(p, 2, batchSpec{pid: 7})
		require.Len(t, v.asked, 1, "asked anew")
		v.answer(nil)
		require.NoError(t, again.Err)
		require.Empty(t, p.state.guards)
	}
}

// A made-up producer id costs nothing after it was rejected. A producer id that is verified again
// and again expires as others do.
func TestGuardsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &verifier{}
		p := openLeader(t, v.config())
		for pid := range int64(100) {
			start(p, 2, batchSpec{pid: pid + 1})
			v.answer(ErrProducerIDMapping)
		}
		require.Empty(t, p.state.guards)
		start(p, 2, batchSpec{pid: 200})
		v.answer(ErrConcurrentTransactions)
		start(p, 2, batchSpec{pid: 201})
		require.Len(t, p.state.guards, 2)
		time.Sleep(day)
		start(p, 2, batchSpec{pid: 202})
		require.Len(t, p.state.guards, 2, "but for the one that is being asked about")
		require.NotContains(t, p.state.guards, int64(200))
		require.NoError(t, p.Close())
	})
}

// A write that could not be verified is sent again; later writes must not take its place.
func TestWriteDoesNotOvertakeOneThatIsToBeVerifiedAgain(t *testing.T) {
	v := &verifier{}
	p := openLeader(t, v.config())
	first := start(p, 0, batchSpec{pid: 7, seq: 5})
	v.answer(ErrNotEnoughReplicas)
	require.ErrorIs(t, first.Err, ErrNotEnoughReplicas)
	second := start(p, 0, batchSpec{pid: 7, seq: 6})
	v.answer(nil)
	require.ErrorIs(t, second.Err, ErrOutOfOrderSequence)
	require.NoError(t, start(p, 0, batchSpec{pid: 7, seq: 5}).Err)
	require.NoError(t, start(p, 0, batchSpec{pid: 7, seq: 6}).Err)
}

func TestProducerOfVersion2BeginsWithSequence0(t *testing.T) {
	v := &verifier{}
	p := openLeader(t, v.config())
	first := start(p, 2, batchSpec{pid: 7, seq: 5})
	v.answer(nil)
	require.ErrorIs(t, first.Err, ErrOutOfOrderSequence)
	require.NoError(t, start(p, 2, batchSpec{pid: 7}).Err)
	require.NoError(t, end(p, TxnMarker{ProducerID: 7, ProducerEpoch: 1, Commit: true, Version: 2}).Err)

	next := start(p, 2, batchSpec{pid: 7, epoch: 1, seq: 1})
	v.answer(nil)
	require.ErrorIs(t, next.Err, ErrOutOfOrderSequence)
	late := start(p, 2, batchSpec{pid: 7, seq: 1})
	v.answer(nil)
	require.ErrorIs(t, late.Err, ErrInvalidProducerEpoch)
	require.NoError(t, start(p, 2, batchSpec{pid: 7, epoch: 1}).Err)
}

// Another leader may have written the marker meanwhile.
func TestGuardsEndWithTheLeadership(t *testing.T) {
	for name, change := range map[string]func(p *Partition){
		"follower":     func(p *Partition) { p.BecomeFollower() },
		"leader again": func(p *Partition) {},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verifier{}
			p := openLeader(t, v.config())
			require.NoError(t, send(p, batchSpec{value: "x"}).Err)
			var guard *TxnGuard
			w := TxnWrite{TransactionalID: "tx", ProducerID: 7}
			p.GuardTransaction(w, func(g *TxnGuard, err error) { guard = g })
			v.answer(nil)
			waits := start(p, 2, batchSpec{pid: 8})
			change(p)
			require.NoError(t, p.BecomeLeader(5))
			require.ErrorIs(t, waits.Err, ErrNotLeader)
			require.NotErrorIs(t, waits.Err, ErrNotLeaderAfterAppend)
			v.answer(nil) // no write waits for it
			var res ProduceResult
			p.Produce(&ProduceRequest{Batch: batchSpec{pid: 7, txn: true}.build(), TransactionalID: "tx", Guard: guard, Done: func(r ProduceResult) { res = r }})
			require.ErrorIs(t, res.Err, ErrInvalidTxnState)
			require.EqualValues(t, 1, p.LogEndOffset())
		})
	}
}

func TestWhoWaitsForACoordinatorIsToldOfTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *Partition)
		want error
	}{
		"closed":           {func(p *Partition) { _ = p.Close() }, ErrClosed},
		"resigned":         {func(p *Partition) { p.Resign() }, ErrNotLeader},
		"follows":          {func(p *Partition) { _ = p.Follow(9) }, ErrNotLeader},
		"resigned, closed": {func(p *Partition) { p.Resign(); _ = p.Close() }, ErrNotLeader},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verifier{}
			p := openLeader(t, v.config())
			res := start(p, 2, batchSpec{pid: 7})
			var refused error
			p.GuardTransaction(TxnWrite{TransactionalID: "tx", ProducerID: 9}, func(_ *TxnGuard, err error) { refused = err })
			c.end(p)
			require.ErrorIs(t, res.Err, c.want)
			require.ErrorIs(t, refused, c.want)
			v.answer(nil)
			v.answer(ErrTxnAbortable)
			require.ErrorIs(t, res.Err, c.want)
			late := start(p, 2, batchSpec{pid: 7})
			require.ErrorIs(t, late.Err, c.want)
			p.GuardTransaction(TxnWrite{TransactionalID: "tx", ProducerID: 9}, func(g *TxnGuard, err error) { refused = err; require.Nil(t, g) })
			require.ErrorIs(t, refused, c.want)
		})
	}
}

// Batches and a marker arrive in one round. A batch that is admitted behind the marker finds no
// guard, though the marker is not in the file yet.
func TestMarkerOfTheSameRoundEndsGuards(t *testing.T) {
	for _, version := range []int16{0, 2} {
		s := newProducers(day)
		s.verifies = true
		var r round
		b := &record.Batch{ProducerID: 7, ProducerEpoch: 3, Attributes: 0x10, RecordCount: 1}
		g := s.guard(&r, TxnWrite{TransactionalID: "tx", ProducerID: 7, ProducerEpoch: 3}, 0, 0)
		_, err := s.check(&r, b, g)
		require.NoError(t, err)
		b.BaseSequence = 1
		_, err = s.check(&r, b, ongoing)
		require.NoError(t, err, "open in this round")
		require.NoError(t, s.checkMarker(&r, marker{producerID: 7, epoch: 3 + version/2, version: version}))
		b.BaseSequence = 2
		for _, late := range []*TxnGuard{g, ongoing, nil} {
			_, err = s.check(&r, b, late)
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrOutOfOrderSequence)
		}
		r.reset() // the write failed
		b.BaseSequence = 0
		_, err = s.check(&r, b, g)
		require.NoError(t, err, "nothing has come of the round")
	}
}

func TestOtherTransactionalIDIsAskedAboutByItself(t *testing.T) {
	v := &verifier{}
	p := openLeader(t, v.config())
	var foreign ProduceResult
	p.Produce(&ProduceRequest{Batch: batchSpec{pid: 7, txn: true}.build(), TransactionalID: "other", TxnVersion: 2, Done: func(r ProduceResult) { foreign = r }})
	mine := start(p, 2, batchSpec{pid: 7})
	require.Len(t, v.asked, 2)
	v.answer(ErrProducerIDMapping)
	require.ErrorIs(t, foreign.Err, ErrProducerIDMapping)
	require.EqualValues(t, pending, mine.BaseOffset)
	v.answer(nil)
	require.NoError(t, mine.Err)
	require.Empty(t, p.state.guards)
}

// A write that arrives while earlier ones are being submitted is queued behind them.
func TestWritesStayInOrderWhileTheirGuardIsSettled(t *testing.T) {
	v := &verifier{}
	p := openLeader(t, v.config())
	var second *ProduceResult
	var first ProduceResult
	p.Produce(&ProduceRequest{Batch: batchSpec{pid: 7, txn: true}.build(), TransactionalID: "tx", TxnVersion: 2, Done: func(r ProduceResult) {
		first = r
		// the write with sequence 1 is not submitted yet
		second = start(p, 2, batchSpec{pid: 7, seq: 2})
		require.EqualValues(t, pending, second.BaseOffset)
	}})
	between := start(p, 2, batchSpec{pid: 7, seq: 1})
	v.answer(nil)
	for i, r := range []*ProduceResult{&first, between, second} {
		require.NoError(t, r.Err)
		require.EqualValues(t, i, r.BaseOffset)
	}
	require.Empty(t, p.state.guards)
}

// A coordinator with its state in this partition verifies its transaction before it decides on a
// write.
func TestCoordinatorsWriteNeedsAGuardThatIsVerified(t *testing.T) {
	v := &verifier{}
	p := openLeader(t, v.config())
	write := func(batch []byte) error {
		done := make(chan ProduceResult, 1)
		p.Produce(&ProduceRequest{Batch: batch, Acks: record.AcksAll, Coordinator: true, Done: func(r ProduceResult) { done <- r }})
		return (<-done).Err
	}
	data := func(epoch int16) []byte { return batchSpec{pid: 7, epoch: epoch, txn: true}.build() }
	commit := record.ControlBatch(nil, record.ControlCommit, 0, record.ControlInfo{LeaderEpoch: -1, ProducerID: 7, ProducerEpoch: 3})
	guard := func(epoch int16) {
		p.GuardTransaction(TxnWrite{TransactionalID: "tx", ProducerID: 7, ProducerEpoch: epoch}, func(*TxnGuard, error) {})
	}
	require.ErrorIs(t, write(data(3)), ErrInvalidTxnState, "nobody was asked")
	require.Empty(t, v.asked)
	guard(3)
	require.ErrorIs(t, write(data(3)), ErrInvalidTxnState, "the coordinator has not said yes")
	v.answer(nil)
	require.ErrorIs(t, write(data(4)), ErrInvalidTxnState, "to another epoch")
	require.NoError(t, write(data(3)))
	require.NoError(t, write(data(3)))
	require.NoError(t, write(commit), "markers need none")
	require.ErrorIs(t, write(data(3)), ErrInvalidTxnState, "behind the marker")
	guard(3)
	v.answer(nil)
	require.NoError(t, write(commit))
	require.ErrorIs(t, write(data(3)), ErrInvalidTxnState, "behind the next marker")
	require.Equal(t, p.HighWatermark(), p.LastStableOffset(), "nothing is open")
	guard(3)
	v.answer(nil)
	require.NoError(t, write(data(3)))

	// in one round
	s := newProducers(day)
	s.verifies = true
	var r round
	b := &record.Batch{ProducerID: 7, Attributes: 0x10, RecordCount: 1}
	s.guard(&r, TxnWrite{TransactionalID: "tx", ProducerID: 7}, 0, 0).verified = true
	require.NoError(t, s.checkCoordinated(&r, b))
	require.NoError(t, s.checkCoordinated(&r, b))
	require.NoError(t, s.checkMarker(&r, marker{producerID: 7}))
	require.ErrorIs(t, s.checkCoordinated(&r, b), ErrInvalidTxnState)
	r.reset()
	require.NoError(t, s.checkCoordinated(&r, b), "a coordinator's batch is no marker")
	_, err := s.check(&r, b, s.guard(&r, TxnWrite{TransactionalID: "tx", ProducerID: 7}, 0, 0))
	require.ErrorIs(t, err, ErrOutOfOrderSequence, "nor a client's")
}

// A coordinator may write once its callback reports an open transaction, before that call returns.
func TestCoordinatorMayWriteOnceItIsTold(t *testing.T) {
	v := &verifier{}
	p := openLeader(t, v.config())
	done := make(chan ProduceResult, 2)
	for range 2 {
		p.GuardTransaction(TxnWrite{TransactionalID: "tx", ProducerID: 7, ProducerEpoch: 3}, func(_ *TxnGuard, err error) {
			require.NoError(t, err)
			batch := batchSpec{pid: 7, epoch: 3, txn: true}.build()
			p.Produce(&ProduceRequest{Batch: batch, Acks: record.AcksAll, Coordinator: true, Done: func(r ProduceResult) { done <- r }})
		})
	}
	v.answer(nil)
	require.NoError(t, (<-done).Err)
	require.NoError(t, (<-done).Err)
	require.Empty(t, p.state.guards)
}

// A marker that a coordinator writes itself has a version like any other.
func TestCoordinatorsMarkerOfVersion2LeavesTheNextTransactionsGuard(t *testing.T) {
	for _, version := range []int16{0, 2} {
		v := &verifier{}
		p := openLeader(t, v.config())
		write := func(batch []byte, version int16) error {
			done := make(chan ProduceResult, 1)
			p.Produce(&ProduceRequest{Batch: batch, Acks: record.AcksAll, Coordinator: true, TxnVersion: version, Done: func(r ProduceResult) { done <- r }})
			return (<-done).Err
		}
		p.GuardTransaction(TxnWrite{TransactionalID: "tx", ProducerID: 7, ProducerEpoch: 4, Version: 2}, func(*TxnGuard, error) {})
		require.NoError(t, write(record.ControlBatch(nil, record.ControlCommit, 0, record.ControlInfo{LeaderEpoch: -1, ProducerID: 7, ProducerEpoch: 4}), version))
		v.answer(nil)
		err := write(batchSpec{pid: 7, epoch: 4, txn: true}.build(), 2)
		if version == 2 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrInvalidTxnState)
		}
	}
}
