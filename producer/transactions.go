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

// firstTxnPause is how long a request is not repeated that the coordinator could not do yet: it
// mostly writes the markers of the transaction before, which takes less. It doubles, up to
// Config.RetryBackoffMax.
const firstTxnPause = 200 * time.Microsecond

// transactions is what a producer with a transactional id knows of it.
type transactions struct {
	p           *Producer
	coordinator TxnCoordinator
	open        atomic.Pointer[Txn] // current, for who cannot take mu; written under mu

	// capacity 1: who fills it asks for the identity
	asking chan struct{}

	mu       sync.Mutex // guards the fields below, and those of the Txns; a leaf, below those of partitions
	identity transaction.Producer
	known    bool // identity may be used for the next transaction
	started  bool // identity was told once
	version  int16
	current  *Txn  // nil: none is open, nor being ended
	fatal    error // a *TxnError: there are no more transactions
}

// backendVersion2 is the transaction.version from which on writes add their partitions, and each
// transaction has its own epoch.
const backendVersion2 = 2

func newTransactions(p *Producer, c TxnCoordinator) *transactions {
	return &transactions{p: p, coordinator: c, identity: transaction.NoProducer, asking: make(chan struct{}, 1)}
}

func (t *transactions) errorOf(kind error, op string, err error) *TxnError {
	return &TxnError{ID: t.p.cfg.TransactionalID, Op: op, Kind: kind, Err: err}
}

// InitTransactions takes the transactional id over, unless that was done before: another producer
// that has it is fenced, and what it has left open is aborted, so that nobody waits for its
// timeout. The first Begin does the same; a consumer whose records it transforms is to be made
// after it.
//
// It waits, at most for MaxBlock, while the coordinator is not there or ends the transaction
// before. Errors: ErrNotTransactional, ErrClosed, ErrTimeout, ctx's, transaction.ErrInvalidTimeout
// if Config.TransactionTimeout is more than the cluster allows, transaction.ErrInvalidID, or one
// that matches ErrFatal. Kafka: initTransactions.
func (p *Producer) InitTransactions(ctx context.Context) error {
	if p.txn == nil {
		return ErrNotTransactional
	}
	return p.txn.ensureIdentity(ctx)
}

// ensureIdentity returns when the identity may be used.
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
		case t.asking <- struct{}{}:
			err := t.ask(ctx)
			<-t.asking
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-t.p.accepting.Done():
			return ErrClosed
		}
	}
}

// ask gets an identity from the coordinator: the first, or the one after an abort of a client
// before version 2. The caller has t.asking.
func (t *transactions) ask(caller context.Context) error {
	t.mu.Lock()
	known, before, started := t.known, t.identity, t.started
	t.mu.Unlock()
	if known {
		return nil
	}
	cfg := &t.p.cfg
	version := int16(0)
	if t.coordinator.Version() >= backendVersion2 {
		version = backendVersion2
	}
	ctx, cancel := t.p.patience(caller)
	defer cancel()
	var got transaction.Producer
	err := t.repeat(ctx, "init", func() (err error) {
		got, err = t.coordinator.InitProducerID(ctx, cfg.TransactionalID, cfg.TransactionTimeout, before)
		return err
	})
	switch {
	case err == nil:
	case caller.Err() != nil:
		return caller.Err()
	case ctx.Err() != nil:
		return withCause(context.Cause(ctx), err)
	case fencedBy(err) && started:
		return t.die("init", errors.Join(ErrFenced, err))
	default:
		return err
	}
	t.mu.Lock()
	t.identity, t.known, t.started, t.version = got, true, true, version
	t.mu.Unlock()
	cfg.Logger.Info("producer has its transactional id", slog.String("transactional_id", cfg.TransactionalID),
		slog.Int64("producer_id", got.ID), slog.Int("producer_epoch", int(got.Epoch)))
	return nil
}

// repeat calls try again while the coordinator may do better, until ctx ends. The error is the last
// one of try.
func (t *transactions) repeat(ctx context.Context, op string, try func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for pause := firstTxnPause; ; pause = min(2*pause, t.p.cfg.RetryBackoffMax) {
		err := try()
		if err == nil || ctx.Err() != nil || !askAgain(err) {
			return err
		}
		t.p.cfg.Logger.Debug("coordinator is asked again", slog.String("transactional_id", t.p.cfg.TransactionalID), slog.String("op", op), slog.Any("err", err))
		t.p.wait(ctx, pause)
	}
}

// die notes that the producer can do no more transactions, and returns why.
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

// Begin begins a transaction. That costs nothing: the coordinator hears of it with the first write,
// and Config.TransactionTimeout counts from there. Only the first Begin asks it, see
// InitTransactions. If the transaction before is still being ended, Begin waits for that.
//
// Errors: ErrTxnOpen, and those of InitTransactions. Nothing has changed then.
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
			return nil, ctx.Err()
		case <-p.accepting.Done():
			return nil, ErrClosed
		}
	}
}

// begin returns a transaction, what has to end before there can be one, or neither if the identity
// is not known.
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

// Transact runs fn in a transaction: it is committed if fn returns nil, else aborted, also if fn
// panics or ends its goroutine. What fn has sent is seen by readers of committed records together
// with the offsets that it has committed (Txn.CommitOffsets), or not at all: a moment after
// Transact has returned, when each partition has its marker, and at the latest when the cluster was
// closed.
//
// The error is fn's, if the transaction is aborted since fn returned one; that of Begin; or that of
// Txn.Commit. After any error that matches neither ErrFatal nor ErrOutcomeUnknown nothing has
// happened, and Transact may be called again, with the same work. With ErrOutcomeUnknown ctx has
// ended while the transaction was being committed; tx.Commit, called again, tells. If ctx ends
// before that the transaction is aborted in the background.
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

// close aborts the transaction that is open, and waits for one that is being ended.
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
		if e.commit || errors.Is(e.err, ErrFatal) { // who asked for it is told
			return nil
		}
		return e.err
	case <-ctx.Done():
		return t.errorOf(ErrOutcomeUnknown, "close", ctx.Err())
	}
}
