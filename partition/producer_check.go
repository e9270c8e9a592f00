package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stratalog/strata/record"
)

// errDuplicate is returned for a batch that is in the log already; the caller returns its offset.
var errDuplicate = errors.New("partition: duplicate of a written batch")

// errRetryInRound is returned for a batch that repeats another batch of the same round, which is
// not written yet. The caller checks again later. The first batch is then written, with an offset
// to return, or has failed.
var errRetryInRound = errors.New("partition: duplicate of a batch being written")

// A position is the state of a producer with which check compares a batch. Four fields are kept in
// registers.
type position struct {
	epoch            int16 // -1: unknown producer, or one without an epoch
	lastSeq          int32 // -1: the epoch's first batch is still to come
	coordinatorEpoch int32
	txnOpen          bool
}

// An admitted batch has passed the check and is on its way to the file: the state of the producers
// with it is only in force once it is written.
type admitted struct {
	position        // after the batch
	firstSeq  int32 // -1: a marker; incomparable: a coordinator's
	before    int32 // index of the same producer's batch before it; -1: none
	producer  int64
	ends      int16 // a marker: see marker.ends
	withdrawn bool
}

// A round is the overlay of admitted batches over the state of the producers. It lets several
// batches of one producer be admitted together, and is thrown away when they are written or
// refused. The zero round is empty.
type round struct {
	batches []admitted
	// newest is the index of each producer's newest batch, once there are more than fewBatches.
	newest map[int64]int32
}

// fewBatches are looked through faster than a map.
const fewBatches = 16

func (r *round) reset() {
	if len(r.batches) > fewBatches {
		clear(r.newest)
	}
	r.batches = r.batches[:0]
}

func (r *round) add(a admitted) {
	r.batches = append(r.batches, a)
	switch n := len(r.batches); {
	case n <= fewBatches:
	case n == fewBatches+1:
		if r.newest == nil {
			r.newest = make(map[int64]int32)
		}
		for i := range r.batches {
			if b := &r.batches[i]; !b.withdrawn {
				r.newest[b.producer] = int32(i)
			}
		}
	default:
		r.newest[a.producer] = int32(n - 1)
	}
}

// last returns the index of the newest batch of a producer, -1 if there is none.
func (r *round) last(pid int64) int32 {
	if len(r.batches) > fewBatches {
		if i, ok := r.newest[pid]; ok {
			return i
		}
		return -1
	}
	for i := len(r.batches) - 1; i >= 0; i-- {
		if b := &r.batches[i]; b.producer == pid && !b.withdrawn {
			return int32(i)
		}
	}
	return -1
}

// drop takes back the newest admitted batch of a producer.
func (r *round) drop(pid int64) {
	i := r.last(pid)
	if i < 0 {
		return
	}
	b := &r.batches[i]
	b.withdrawn = true
	switch {
	case len(r.batches) <= fewBatches:
	case b.before >= 0:
		r.newest[pid] = b.before
	default:
		delete(r.newest, pid)
	}
}

// position returns where a producer stands after the round's batches, and the index of the last of
// them, -1 if there is none.
func (s *producers) position(r *round, pid int64) (position, int32) {
	if i := r.last(pid); i >= 0 {
		return r.batches[i].position, i
	}
	e := s.m[pid]
	if e == nil {
		return position{epoch: -1, lastSeq: -1, coordinatorEpoch: -1}, -1
	}
	last, _ := e.last()
	return position{e.epoch, last.lastSeq, e.coordinatorEpoch, e.txnFirstOffset >= 0}, -1
}

// check decides about one client batch, which must have a producer id. nil admits it into the
// round, errDuplicate comes with the batch it repeats, errRetryInRound requests another check, and
// any other error rejects it. g is the guard of the batch, if any. Kafka: ProducerStateManager and
// ProducerAppendInfo, in this order: duplicate, guard, epoch, sequence, transaction.
func (s *producers) check(r *round, b *record.Batch, g *TxnGuard) (seqBatch, error) {
	at, before := s.position(r, b.ProducerID)
	if r.repeats(before, b) {
		return seqBatch{}, errRetryInRound
	}
	// Else a batch of this round has emptied the window.
	if e := s.m[b.ProducerID]; e != nil && at.epoch == e.epoch {
		if d, ok := e.find(b); ok {
			return d, errDuplicate
		}
	}
	if s.verifies && b.IsTransactional() {
		if err := s.verified(r, b, g); err != nil {
			return seqBatch{}, err
		}
	}
	if err := at.admits(b); err != nil {
		return seqBatch{}, err
	}
	at.epoch, at.lastSeq, at.txnOpen = b.ProducerEpoch, b.LastSequence(), at.txnOpen || b.IsTransactional()
	r.add(admitted{position: at, firstSeq: b.BaseSequence, before: before, producer: b.ProducerID})
	return seqBatch{}, nil
}

// checkCoordinated decides about a batch of the coordinator whose state is in the partition: nil
// admits it into the round. It has no guard; the first batch in a transaction needs a verified one.
func (s *producers) checkCoordinated(r *round, b *record.Batch) error {
	at, before := s.position(r, b.ProducerID)
	switch {
	case b.ProducerEpoch < at.epoch:
		return fencedEpoch(b, at.epoch)
	case s.verifies && b.IsTransactional() && !at.inTransaction(b.ProducerEpoch):
		i := slices.IndexFunc(s.guards[b.ProducerID], func(g *TxnGuard) bool { return g.verified && g.ProducerEpoch == b.ProducerEpoch })
		if i < 0 || r.ended(before, b.ProducerEpoch) {
			return fmt.Errorf("%w: the transaction of producer %d epoch %d is not known to be open", ErrInvalidTxnState, b.ProducerID, b.ProducerEpoch)
		}
	}
	at.epoch, at.lastSeq, at.txnOpen = b.ProducerEpoch, b.LastSequence(), at.txnOpen || b.IsTransactional()
	r.add(admitted{position: at, firstSeq: incomparable, before: before, producer: b.ProducerID})
	return nil
}

// incomparable is the sequence of a batch that no other batch repeats.
const incomparable = -2

// markersBumpEpoch is the transaction.version from which on markers have the epoch above that of
// the records that they end.
const markersBumpEpoch = 2

// checkMarker decides about a transaction marker, whose offset does not matter yet: nil admits it
// into the round. An unknown producer is fine: its marker is written even where the transaction has
// no data.
func (s *producers) checkMarker(r *round, m marker) error {
	at, before := s.position(r, m.producerID)
	switch {
	case m.epoch < at.epoch:
		return fmt.Errorf("%w: marker of producer %d has epoch %d, newest is %d", ErrInvalidProducerEpoch, m.producerID, m.epoch, at.epoch)
	case m.version >= markersBumpEpoch && m.epoch == at.epoch && at.txnOpen:
		return fmt.Errorf("%w: marker of producer %d is of the transaction before that of epoch %d", ErrInvalidProducerEpoch, m.producerID, at.epoch)
	case m.coordinatorEpoch < at.coordinatorEpoch:
		return fmt.Errorf("%w: producer %d: epoch %d, newest is %d", ErrCoordinatorFenced, m.producerID, m.coordinatorEpoch, at.coordinatorEpoch)
	case m.epoch != at.epoch:
		at.lastSeq = -1
	}
	at.epoch, at.coordinatorEpoch, at.txnOpen = m.epoch, m.coordinatorEpoch, false
	r.add(admitted{position: at, firstSeq: -1, before: before, producer: m.producerID, ends: m.ends()})
	return nil
}

// repeats reports whether b has the sequence numbers of an admitted batch. The newest batch of the
// producer is at index i.
func (r *round) repeats(i int32, b *record.Batch) bool {
	for ; i >= 0; i = r.batches[i].before {
		if p := &r.batches[i]; p.epoch == b.ProducerEpoch && p.firstSeq == b.BaseSequence && p.lastSeq == b.LastSequence() {
			return true
		}
	}
	return false
}

// find returns the remembered batch of the same epoch with exactly b's sequence numbers; an overlap
// is no duplicate.
func (e *producerEntry) find(b *record.Batch) (seqBatch, bool) {
	if e.epoch != b.ProducerEpoch {
		return seqBatch{}, false
	}
	for _, w := range e.window[:e.n] {
		if w.lastSeq == b.LastSequence() && w.firstSeq() == b.BaseSequence {
			return w, true
		}
	}
	return seqBatch{}, false
}

// admits returns nil if b may follow.
func (p position) admits(b *record.Batch) error {
	switch {
	case b.ProducerEpoch < p.epoch:
		return fencedEpoch(b, p.epoch)
	case p.epoch == -1: // nothing known, or no epochs at all: any sequence is a beginning
	case b.ProducerEpoch != p.epoch && b.BaseSequence != 0:
		return fmt.Errorf("%w: producer %d begins epoch %d with sequence %d instead of 0", ErrOutOfOrderSequence, b.ProducerID, b.ProducerEpoch, b.BaseSequence)
	case b.ProducerEpoch == p.epoch && !follows(p.lastSeq, b.BaseSequence):
		return fmt.Errorf("%w: producer %d epoch %d: sequence %d after %d", ErrOutOfOrderSequence, b.ProducerID, b.ProducerEpoch, b.BaseSequence, p.lastSeq)
	}
	if p.txnOpen && !b.IsTransactional() {
		return fmt.Errorf("%w: producer %d writes outside of its open transaction", ErrInvalidTxnState, b.ProducerID)
	}
	return nil
}

func fencedEpoch(b *record.Batch, newest int16) error {
	return fmt.Errorf("%w: producer %d has epoch %d, newest is %d", ErrInvalidProducerEpoch, b.ProducerID, b.ProducerEpoch, newest)
}

func follows(last, next int32) bool {
	return int64(next) == int64(last)+1 || last == math.MaxInt32 && next == 0
}
