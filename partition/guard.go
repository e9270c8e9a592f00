package partition

import (
	"fmt"
	"slices"

	"github.com/stratalog/strata/record"
)

// A TxnGuard permits the first write of a transaction to a partition. It is created before the
// request to the transaction coordinator whether the partition is in the transaction, and the
// transaction's marker invalidates it. So a write that the coordinator has permitted is not
// appended after the marker, where nothing would end its transaction (KIP-890).
//
// One guard serves all writes that precede the first one in the log, since the coordinator's
// response is the same for all. Guards are in memory only, and end with the leadership. Kafka:
// VerificationStateEntry.
type TxnGuard struct {
	TxnWrite
	lowest  int32 // lowest sequence of the writes that requested it, if they have sequences
	touched int64 // time of the last request for it, ms

	// Set while the request to the coordinator is in progress, and until the writes that have
	// waited for it are submitted. Later writes queue behind them, so that the order of calls is
	// kept.
	asking   bool
	verified bool // the coordinator has permitted the write
	waiting  []func(error)
}

// A TxnWrite identifies the producer of a write in a transaction.
type TxnWrite struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	Version         int16 // transaction.version of the client: from 2 on its writes add the partition
}

// ongoing is the guard of a write whose transaction is open already.
var ongoing = &TxnGuard{}

// same reports whether the request to the coordinator is the same for both.
func (w *TxnWrite) same(o *TxnWrite) bool {
	return w.ProducerEpoch == o.ProducerEpoch && w.Adds() == o.Adds() && w.TransactionalID == o.TransactionalID
}

// Adds reports whether the write adds its partition to the transaction, as writes of version 2 do.
func (w *TxnWrite) Adds() bool { return w.Version >= markersBumpEpoch }

// guard returns the guard of a write that begins with a sequence number (MaxInt32: unknown). It is
// ongoing if the transaction is open in the partition, else a guard that may have been created for
// earlier writes.
func (s *producers) guard(r *round, w TxnWrite, sequence int32, now int64) *TxnGuard {
	i := slices.IndexFunc(s.guards[w.ProducerID], func(g *TxnGuard) bool { return g.same(&w) })
	if i >= 0 && s.guards[w.ProducerID][i].asking {
		return s.guards[w.ProducerID][i].touch(sequence, now)
	}
	if at, _ := s.position(r, w.ProducerID); at.inTransaction(w.ProducerEpoch) {
		return ongoing
	}
	if i >= 0 {
		return s.guards[w.ProducerID][i].touch(sequence, now)
	}
	s.sweep(now)
	if s.guards == nil {
		s.guards = make(map[int64][]*TxnGuard)
	}
	g := &TxnGuard{TxnWrite: w, lowest: sequence}
	s.guards[w.ProducerID] = append(s.guards[w.ProducerID], g)
	return g.touch(sequence, now)
}

func (g *TxnGuard) touch(sequence int32, now int64) *TxnGuard {
	g.touched, g.lowest = now, min(g.lowest, sequence)
	return g
}

// inTransaction reports whether a transaction of that epoch is open.
func (p position) inTransaction(epoch int16) bool { return p.txnOpen && p.epoch == epoch }

// verified decides about a write in a transaction: the first one here must show a guard, which is
// g; nil: none. Kafka: UnifiedLog.analyzeAndValidateProducerState,
// ProducerAppendInfo.checkSequence.
func (s *producers) verified(r *round, b *record.Batch, g *TxnGuard) error {
	pid, epoch, sequence := b.ProducerID, b.ProducerEpoch, b.BaseSequence
	at, last := s.position(r, pid)
	switch {
	case at.inTransaction(epoch):
	case epoch < at.epoch: // its producer can recover from this error, but not from the other
		return fencedEpoch(b, at.epoch)
	case g == nil || g.ProducerEpoch != epoch || r.ended(last, epoch) || !slices.Contains(s.guards[pid], g):
		return fmt.Errorf("%w: the transaction of producer %d epoch %d is not known to be open", ErrInvalidTxnState, pid, epoch)
	case at.epoch >= 0: // the sequence decides
	case g.Adds() && sequence > 0:
		return fmt.Errorf("%w: producer %d begins with sequence %d instead of 0", ErrOutOfOrderSequence, pid, sequence)
	// else the batch with the lowest sequence could never be appended
	case sequence > g.lowest:
		return fmt.Errorf("%w: producer %d begins with sequence %d, and has shown %d", ErrOutOfOrderSequence, pid, sequence, g.lowest)
	}
	return nil
}

// ends returns the last epoch whose guards the marker ends: those above are of transactions that
// begin behind it.
func (m marker) ends() int16 {
	if m.version >= markersBumpEpoch {
		return m.epoch - 1
	}
	return m.epoch
}

// ended reports whether a marker of the round ends guards of an epoch; i is the index of the
// producer's newest batch.
func (r *round) ended(i int32, epoch int16) bool {
	for ; i >= 0; i = r.batches[i].before {
		if b := &r.batches[i]; b.firstSeq == -1 && epoch <= b.ends {
			return true
		}
	}
	return false
}

// dropGuards takes away a producer's guards that drop picks.
func (s *producers) dropGuards(pid int64, drop func(*TxnGuard) bool) {
	if left := slices.DeleteFunc(s.guards[pid], drop); len(left) > 0 {
		s.guards[pid] = left
	} else {
		delete(s.guards, pid)
	}
}

// spend removes guards that are not needed after a batch of a transaction was written. A guard
// whose callers are still being submitted keeps later ones in order; answered drops it.
func (s *producers) spend(pid int64, epoch int16) {
	if len(s.guards) > 0 {
		s.dropGuards(pid, func(g *TxnGuard) bool { return g.ProducerEpoch <= epoch && !g.asking })
	}
}

// sweepGuards removes guards that were not requested since.
func (s *producers) sweepGuards(before int64) {
	for pid := range s.guards {
		s.dropGuards(pid, func(g *TxnGuard) bool { return g.touched <= before && !g.asking })
	}
}

// takeWaiting removes all guards and returns the functions that wait for one.
func (s *producers) takeWaiting() (waiting []func(error)) {
	for _, guards := range s.guards {
		for _, g := range guards {
			waiting, g.waiting = append(waiting, g.waiting...), nil
		}
	}
	s.guards = nil
	return waiting
}

// awaiting returns how many wait for a guard.
func (s *producers) awaiting() (n int) {
	for _, guards := range s.guards {
		for _, g := range guards {
			n += len(g.waiting)
		}
	}
	return n
}
