package partition

import (
	"errors"
	"math"
	"time"

	"github.com/stratalog/strata/record"
)

// A TxnQuestion is a request to the coordinator of a transactional id whether a partition is in the
// current transaction. For a client of transaction.version 2 the coordinator adds the partition.
type TxnQuestion struct {
	TxnWrite
	Partition record.TopicPartition
	// Answer must be called once, from any goroutine, without locks. Its argument is nil if the
	// partition is in the transaction and that is committed. Answer may append the waiting writes.
	Answer func(error)
}

// GuardTransaction obtains the guard of a write in a transaction. It is for callers, such as
// coordinators, that must be sure that the transaction is open before they decide what to append;
// Produce obtains a guard itself for a request without one. It does not block. done is called once,
// without locks, with the guard or an error of Produce.
func (p *Partition) GuardTransaction(w TxnWrite, done func(*TxnGuard, error)) {
	epoch, err := p.checkEpoch(-1)
	switch {
	case err != nil:
		done(nil, p.wrap("write in transaction", err))
		return
	case p.verify == nil:
		done(ongoing, nil)
		return
	}
	var g *TxnGuard
	proceed := p.awaitGuard(w, math.MaxInt32, epoch, &g, func(err error) {
		if err != nil {
			done(nil, p.wrap("write in transaction", err))
			return
		}
		done(g, nil)
	})
	if proceed {
		done(g, nil)
	}
}

// guarded reports whether req, a write in a transaction, may be submitted to the log, which
// decides whether the transaction is still open. If not, it waits for the transaction's
// coordinator.
func (p *Partition) guarded(req *ProduceRequest) bool {
	if req.guard = req.Guard; req.guard != nil {
		return true
	}
	b := &req.append.Info
	w := TxnWrite{TransactionalID: req.TransactionalID, ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, Version: req.TxnVersion}
	return p.awaitGuard(w, b.BaseSequence, req.result.LeaderEpoch, &req.guard, func(err error) {
		if err != nil {
			p.refuse(req, err)
			return
		}
		p.submit(req)
	})
}

// awaitGuard sets guard, and returns true if the caller may proceed at once. Otherwise goOn is
// called with the coordinator's response, or when this replica no longer leads.
func (p *Partition) awaitGuard(w TxnWrite, sequence int32, leaderEpoch int32, guard **TxnGuard, goOn func(error)) (proceed bool) {
	p.mu.Lock()
	if p.leaderEpoch.Load() != leaderEpoch || p.closed || p.resigned.Load() {
		p.mu.Unlock()
		goOn(p.notLeading())
		return false
	}
	g := p.state.guard(&p.round, w, sequence, time.Now().UnixMilli())
	*guard = g
	if g == ongoing || g.verified && !g.asking {
		p.mu.Unlock()
		return true
	}
	g.waiting = append(g.waiting, goOn)
	ask := !g.asking
	g.asking = true
	p.mu.Unlock()
	if ask {
		p.verify(TxnQuestion{TxnWrite: w, Partition: p.tp, Answer: func(err error) { p.answered(g, err) }})
	}
	return false
}

// answered calls the waiting functions of a guard, in the order in which they arrived.
func (p *Partition) answered(g *TxnGuard, err error) {
	for {
		p.mu.Lock()
		waiting := g.waiting
		g.waiting, g.verified = nil, err == nil // they may write before they return
		done := err != nil || len(waiting) == 0
		if done {
			p.settleLocked(g, err)
		}
		p.mu.Unlock()
		for _, goOn := range waiting {
			goOn(err)
		}
		if done {
			return
		}
	}
}

// settleLocked ends the request about a guard. A guard that may be requested again stays: it has
// the lowest sequence number that is still to come.
func (p *Partition) settleLocked(g *TxnGuard, err error) {
	g.asking = false
	at, _ := p.state.position(&p.round, g.ProducerID)
	again := errors.Is(err, ErrConcurrentTransactions) || errors.Is(err, ErrNotEnoughReplicas)
	if at.inTransaction(g.ProducerEpoch) || err != nil && !again {
		p.state.dropGuards(g.ProducerID, func(o *TxnGuard) bool { return o == g })
	}
}

// refuse answers a request that the log has not seen.
func (p *Partition) refuse(req *ProduceRequest, err error) {
	p.stats.refused.Add(1)
	req.result.LogStartOffset = p.log.StartOffset()
	req.result.Err = p.wrap("produce", err)
	req.Done(req.result)
}

// releaseGuards makes all writes that wait for a guard fail with err.
func releaseGuards(waiting []func(error), err error) {
	for _, goOn := range waiting {
		goOn(err)
	}
}
