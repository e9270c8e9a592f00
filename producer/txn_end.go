package producer

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/transaction"
)

// startEndLocked begins to end the transaction, on its own goroutine, since callers may stop
// waiting. A transaction that the coordinator does not have ends immediately.
func (x *Txn) startEndLocked(commit bool) {
	t := x.t
	e := &ending{commit: commit, done: make(chan struct{})}
	x.ending = e
	if !commit {
		x.cancel()
	}
	if !x.wrote {
		x.endedLocked(x.producer, nil)
		return
	}
	if !t.p.spawn(func() { x.end(e) }) {
		x.endedLocked(transaction.NoProducer, t.errorOf(ErrOutcomeUnknown, e.op(), ErrClosed))
	}
}

// end requests the end of the transaction until the outcome is known, or the producer has ended.
func (x *Txn) end(e *ending) {
	t := x.t
	if !e.commit {
		if err := x.awaitIdle(t.p.living); err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			x.endedLocked(transaction.NoProducer, t.errorOf(ErrOutcomeUnknown, e.op(), ErrClosed))
			return
		}
		t.p.eachPart(func(pt *partitionQueue) { pt.drop(ErrAborted) })
	}
	ctx := t.p.living
	attempts := 0
	var next transaction.Producer
	err := t.repeat(ctx, e.op(), func() (err error) {
		attempts++
		next, err = t.coordinator.End(ctx, transaction.EndRequest{ID: t.p.cfg.TransactionalID, Producer: x.producer, Commit: e.commit, Version: x.version})
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		x.endedLocked(next, nil)
	case errors.Is(err, transaction.ErrInvalidProducerMapping) && attempts == 1:
		// The coordinator no longer has the id, which then has no open transaction, or another
		// producer has it: InitProducerID finds out which.
		if e.commit {
			x.fail(err)
			x.ending, e.err = nil, x.failed(e.op())
			close(e.done)
			break
		}
		x.endedLocked(transaction.NoProducer, nil)
	case fencedBy(err):
		err = fmt.Errorf("%w: %w", ErrFenced, err)
		if e.commit && attempts > 1 {
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		x.endedLocked(next, t.dieLocked(e.op(), err))
	case errors.Is(err, transaction.ErrInvalidState) && e.commit:
		// The coordinator has aborted it, usually because of its timeout.
		x.fail(err)
		x.ending, e.err = nil, x.failed(e.op())
		close(e.done)
	case errors.Is(err, transaction.ErrInvalidState):
		// There is none: no write has reached the coordinator, or not in time.
		x.endedLocked(transaction.NoProducer, nil)
	default: // the backend or the producer is closed
		if ctx.Err() != nil {
			err = ErrClosed
		}
		x.endedLocked(transaction.NoProducer, t.dieUnknownLocked(e, err))
	}
}

// dieUnknownLocked records that this producer cannot find out the outcome.
func (t *transactions) dieUnknownLocked(e *ending, err error) error {
	_ = t.dieLocked(e.op(), err)
	return t.errorOf(ErrOutcomeUnknown, e.op(), err)
}

// endedLocked completes the transaction with the result of an attempt to end it. next is the
// identity of the next transaction; NoProducer means the present one, if it may be reused.
func (x *Txn) endedLocked(next transaction.Producer, err error) {
	t, e := x.t, x.ending
	x.done, e.err = true, err
	x.cancel()
	switch {
	case err != nil || !x.wrote:
	case x.version >= backendVersion2 && next.ID >= 0:
		t.identity = next
	case !e.commit || x.late: // late writes may still arrive: in the next epoch they have no effect
		t.known = false
	}
	if err == nil && x.wrote {
		if e.commit {
			t.p.stats.commits.Add(1)
		} else {
			t.p.stats.aborts.Add(1)
		}
	}
	t.current = nil
	t.open.Store(nil)
	close(e.done)
}

// inTransactionLocked prepares pt for the transaction of its first batch. It sets unnamed if
// batches must not be sent yet.
func (pt *partitionQueue) inTransactionLocked() {
	x := pt.p.txn.open.Load()
	if x == nil || pt.txn == x || pt.head == nil {
		return
	}
	pt.txn = x
	if pt.producerID != x.producer.ID || pt.producerEpoch != x.producer.Epoch {
		pt.producerID, pt.producerEpoch, pt.sequence, pt.confirmed = x.producer.ID, x.producer.Epoch, 0, false
	}
	pt.unnamed = !x.join(pt)
}

// drop fails all batches with cause, and prepares pt for the next transaction.
func (pt *partitionQueue) drop(cause error) {
	pt.abort(cause)
	pt.mu.Lock()
	defer pt.mu.Unlock()
	pt.held, pt.retryAt, pt.failures, pt.stopped, pt.unnamed = false, 0, 0, false, false
}

// bounded returns a context that also ends when the open transaction accepts no more records.
func (p *Producer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.txn == nil {
		return ctx, func() {}
	}
	if x := p.txn.open.Load(); x != nil {
		return x.bound(ctx)
	}
	return ctx, func() {}
}
