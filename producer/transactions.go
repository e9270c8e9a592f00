package producer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/transaction"
)

// firstTxnPause is the pause before a request is repeated that the coordinator could not serve yet.
// Usually the coordinator is writing the markers of the previous transaction, which takes less
// time. It doubles, up to Config.RetryBackoffMax.
const firstTxnPause = 200 * time.Microsecond

// transactions is the transactional state of a producer.
type transactions struct {
	p           *Producer
	coordinator TxnCoordinator
	open        atomic.Pointer[Txn] // current, for code that cannot take mu; written under mu

	// capacity 1: held by the goroutine that requests the identity
	requesting chan struct{}

	// guards the fields below, and the fields of the Txns; a leaf, below the locks of partitions
	mu       sync.Mutex
	identity transaction.Producer
	known    bool  // identity may be used for the next transaction
	started  bool  // identity was returned once
	version  int16 // 0 or backendVersion2, from the response that returned identity
	current  *Txn  // nil: none is open or being ended
	fatal    error // a *TxnError: there are no more transactions
	trouble  error // error of the coordinator's last response; nil: none
}

// backendVersion2 is the transaction.version from which writes add their partitions, and each
// transaction has its own epoch.
const backendVersion2 = 2

func newTransactions(p *Producer, c TxnCoordinator) *transactions {
	return &transactions{p: p, coordinator: c, identity: transaction.NoProducer, requesting: make(chan struct{}, 1)}
}

func (t *transactions) errorOf(kind error, op string, err error) *TxnError {
	return &TxnError{ID: t.p.cfg.TransactionalID, Op: op, Kind: kind, Err: err}
}

// InitTransactions acquires the transactional id, unless that was done already. Another producer
// with this id is fenced, and its open transaction is aborted, so that readers need not wait for
// its timeout. The first Begin does the same. Create a consumer whose records are transformed after
// InitTransactions.
//
// It waits, at most for MaxBlock, while the coordinator is unavailable or ends the previous
// transaction. Errors: ErrNotTransactional, ErrClosed, ErrTimeout, ctx's,
// transaction.ErrInvalidTimeout if Config.TransactionTimeout exceeds the cluster's limit,
// transaction.ErrInvalidID, or one that matches ErrFatal. Kafka: initTransactions.
func (p *Producer) InitTransactions(ctx context.Context) error {
	if p.txn == nil {
		return ErrNotTransactional
	}
	return p.txn.ensureIdentity(ctx)
}

// ensureIdentity waits until the identity may be used.
func (t *transactions) ensureIdentity(ctx context.Context) error {
	for {
		t.mu.Lock()
		known, err := t.known, t.fatal
		t.mu.Unlock()
		switch {
		case t.p.closing.Load():
			return ErrClosed
		case err != nil:
			return err
		case known:
			return nil
		}
		select {
		case t.requesting <- struct{}{}:
			err := t.requestIdentity(ctx)
			<-t.requesting
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return t.interrupted(ctx.Err())
		case <-t.p.accepting.Done():
			return ErrClosed
		}
	}
}

// requestIdentity requests an identity from the coordinator: the first one, or the one after an
// abort of a client before version 2. The caller holds t.requesting.
func (t *transactions) requestIdentity(caller context.Context) error {
	t.mu.Lock()
	known, before, started := t.known, t.identity, t.started
	t.mu.Unlock()
	if known {
		return nil
	}
	cfg := &t.p.cfg
	ctx, cancel := t.p.patience(caller)
	defer cancel()
	var got transaction.Producer
	var version int16
	err := t.repeat(ctx, "init", func() (err error) {
		got, version, err = t.coordinator.InitProducerID(ctx, cfg.TransactionalID, cfg.TransactionTimeout, before)
		return err
	})
	switch {
	case err == nil:
	case caller.Err() != nil:
		return t.interrupted(caller.Err())
	case ctx.Err() != nil:
		return t.interrupted(context.Cause(ctx))
	case fencedBy(err) && started:
		return t.die("init", errors.Join(ErrFenced, err))
	default:
		return err
	}
	t.mu.Lock()
	t.identity, t.known, t.started, t.version = got, true, true, 0
	if version >= backendVersion2 { // a client of version 1 sends what one of version 0 sends
		t.version = backendVersion2
	}
	t.mu.Unlock()
	cfg.Logger.Info("producer has its transactional id", slog.String("transactional_id", cfg.TransactionalID),
		slog.Int64("producer_id", got.ID), slog.Int("producer_epoch", int(got.Epoch)))
	return nil
}

// repeat calls try again while the coordinator may still succeed, until ctx ends. The error is the
// last one of try.
func (t *transactions) repeat(ctx context.Context, op string, try func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for pause := firstTxnPause; ; pause = min(2*pause, t.p.cfg.RetryBackoffMax) {
		err := try()
		t.note(err)
		if err == nil || ctx.Err() != nil || !isRepeatable(err) {
			return err
		}
		t.p.cfg.Logger.Debug("the request to the coordinator is repeated", slog.String("transactional_id", t.p.cfg.TransactionalID), slog.String("op", op), slog.Any("err", err))
		t.p.wait(ctx, pause)
	}
}

// note stores the error of the coordinator's last response for callers whose contexts end
// meanwhile. An error of a context that ended does not replace it.
func (t *transactions) note(err error) {
	if isInterruption(err) {
		return
	}
	t.mu.Lock()
	t.trouble = err
	t.mu.Unlock()
}

// interrupted joins the reason why a wait has ended and the coordinator's last error, without which
// a damaged partition of __transaction_state looks like a slow one.
func (t *transactions) interrupted(reason error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return withCause(reason, t.trouble)
}

// die records that the producer can run no more transactions, and returns the reason.
func (t *transactions) die(op string, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dieLocked(op, err)
}

func (t *transactions) dieLocked(op string, err error) error {
	if t.fatal == nil {
		t.fatal = t.errorOf(ErrFatal, op, err)
	}
	return t.fatal
}

// Begin begins a transaction. It sends no request, except that the first Begin does the work of
// InitTransactions: the coordinator learns of the transaction with the first write, and
// Config.TransactionTimeout starts there. If the previous transaction is still being ended, Begin
// waits for that.
//
// Errors are ErrTxnOpen and those of InitTransactions. After an error nothing has changed.
func (p *Producer) Begin(ctx context.Context) (*Txn, error) {
	t := p.txn
	if t == nil {
		return nil, ErrNotTransactional
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		x, ending, err := t.begin()
		if x != nil || err != nil {
			return x, err
		}
		if ending == nil {
			if err := t.ensureIdentity(ctx); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-ending.done:
		case <-ctx.Done():
			return nil, t.interrupted(ctx.Err())
		case <-p.accepting.Done():
			return nil, ErrClosed
		}
	}
}

// begin returns a new transaction, or the ending that must complete first, or neither if the
// identity is unknown.
func (t *transactions) begin() (*Txn, *ending, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.p.closing.Load():
		return nil, nil, ErrClosed
	case t.fatal != nil:
		return nil, nil, t.fatal
	case t.current != nil && t.current.ending == nil:
		return nil, nil, ErrTxnOpen
	case t.current != nil:
		return nil, t.current.ending, nil
	case !t.known:
		return nil, nil, nil
	}
	x := &Txn{t: t, producer: t.identity, version: t.version}
	x.ctx, x.cancel = context.WithCancel(t.p.living)
	t.current = x
	t.open.Store(x)
	return x, nil, nil
}

// Transact runs fn in a transaction. It commits the transaction if fn returns nil. Otherwise it
// aborts, also if fn panics or ends its goroutine. Readers of committed records see the records
// sent by fn together with the offsets it committed (Txn.CommitOffsets), or none of them. They see
// them a moment after Transact has returned, when each partition has its marker, and at the latest
// when the cluster has been closed.
//
// The error is fn's, in which case the transaction was aborted, or one of Begin or Txn.Commit.
// After any error that matches neither ErrFatal nor ErrOutcomeUnknown nothing was committed, and
// Transact may be called again with the same work. After ErrOutcomeUnknown, ctx ended during the
// commit; call tx.Commit again for the outcome. If ctx ends earlier, the transaction is aborted in
// the background.
func (p *Producer) Transact(ctx context.Context, fn func(tx *Txn) error) error {
	tx, err := p.Begin(ctx)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic, or the end of the goroutine
			_ = tx.Abort(ctx)
		}
	}()
	err = fn(tx)
	returned = true
	if err == nil {
		err = tx.Commit(ctx)
		if err == nil || errors.Is(err, ErrFatal) || errors.Is(err, ErrOutcomeUnknown) {
			return err
		}
	}
	if aborted := tx.Abort(ctx); errors.Is(aborted, ErrFatal) {
		return p.txn.errorOf(ErrFatal, "abort", errors.Join(cause(aborted), cause(err)))
	}
	return err
}

// close aborts the open transaction. It waits for a transaction that is ending.
func (t *transactions) close(ctx context.Context) error {
	t.mu.Lock()
	x := t.current
	if x == nil {
		t.mu.Unlock()
		return nil
	}
	if x.ending == nil {
		x.startEndLocked(false)
	}
	e := x.ending
	t.mu.Unlock()
	select {
	case <-e.done:
		if e.commit || errors.Is(e.err, ErrFatal) { // the caller that requested it gets the error
			return nil
		}
		return e.err
	case <-ctx.Done():
		return t.errorOf(ErrOutcomeUnknown, "close", t.interrupted(ctx.Err()))
	}
}
