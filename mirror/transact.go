package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
)

const (
	beginWait  = 15 * time.Second // of one attempt to begin
	commitWait = 30 * time.Second // until a commit without a response is reported
	abortWait  = 8 * time.Second  // after which the next Begin waits for the abort
)

// transact writes the records of b, which may be nil, and the positions behind them, in one
// transaction. It repeats that until the transaction is committed.
func (e *engine) transact(moves map[*flow][]reached, b *consumer.Batch) error {
	e.noteSending(b, true)
	defer e.noteSending(nil, false)
	err := e.retry(e.work, func() error {
		err := e.attempt(moves, b)
		if err != nil && e.ctx.Err() != nil && !isFinal(err) {
			return e.ctx.Err() // no further attempt
		}
		return err
	})
	if err != nil {
		return err
	}
	if b != nil {
		b.Release()
	}
	return nil
}

// attempt is one transaction. After an error nothing of it is visible at the target, unless work
// has ended: then the next Run finds out.
func (e *engine) attempt(moves map[*flow][]reached, b *consumer.Batch) error {
	ctx, cancel := context.WithTimeout(e.work, beginWait)
	tx, err := e.producer.Begin(ctx)
	cancel()
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if err = e.verified(); err == nil {
		if err = e.send(tx, moves, b); err == nil {
			err = e.commit(tx)
		}
	}
	if err != nil {
		e.verify = true
		e.noteAbort()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.work), abortWait)
		defer cancel()
		if aborted := tx.Abort(ctx); errors.Is(aborted, producer.ErrFatal) {
			err = errors.Join(aborted, err)
		}
		return fmt.Errorf("target: %w", err)
	}
	e.noteCommit(moves, b)
	return nil
}

// verified checks the stored positions after an aborted transaction. If the transactional id had
// expired meanwhile, another mirror may have used it without fencing this one.
func (e *engine) verified() error {
	if !e.verify || !e.claimed {
		return nil
	}
	if err := e.checkClaims(); err != nil {
		return err
	}
	e.verify = false
	return nil
}

// send adds the records and the positions to a transaction.
func (e *engine) send(tx *producer.Txn, moves map[*flow][]reached, b *consumer.Batch) error {
	if b != nil {
		targets := make(map[string]string, len(e.flows))
		for _, fl := range e.flows {
			targets[fl.source] = fl.target
		}
		for tp, rs := range b.Partitions() {
			e.buffer = append(e.buffer[:0], rs...)
			for i := range e.buffer {
				r := &e.buffer[i]
				r.Topic = targets[tp.Topic]
				*r = r.To(tp.Partition)
			}
			err := tx.Send(e.work, e.buffer...)
			clear(e.buffer)
			if err != nil {
				return err
			}
		}
	}
	for _, fl := range e.flows {
		next, moved := moves[fl]
		if !moved {
			continue
		}
		r, err := e.positionRecord(fl, next)
		if err == nil {
			err = tx.Send(e.work, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commit commits a transaction. It returns nil only when the commit is decided.
func (e *engine) commit(tx *producer.Txn) error {
	for {
		ctx, cancel := context.WithTimeout(e.work, commitWait)
		err := tx.Commit(ctx)
		waiting := ctx.Err() != nil
		cancel()
		again := errors.Is(err, producer.ErrOutcomeUnknown) && !errors.Is(err, producer.ErrFatal) ||
			waiting && !errors.Is(err, producer.ErrAbortable) && !errors.Is(err, producer.ErrFatal)
		if err == nil || !again || e.work.Err() != nil {
			return err
		}
		e.noteError(fmt.Errorf("target: %w", err))
	}
}

// noteCommit makes the new positions the mirror's.
func (e *engine) noteCommit(moves map[*flow][]reached, b *consumer.Batch) {
	records, bytes := 0, 0
	e.mu.Lock()
	for fl, next := range moves {
		fl.reached = slices.Clone(next)
	}
	if b != nil {
		for tp, rs := range b.Partitions() {
			records += len(rs)
			for i := range rs {
				bytes += len(rs[i].Key) + len(rs[i].Value)
				for _, h := range rs[i].Headers {
					bytes += len(h.Key) + len(h.Value)
				}
			}
			if s := e.stateOf(tp); s != nil {
				s.head, s.newest = time.Time{}, rs[len(rs)-1].Timestamp
			}
		}
	}
	e.stats.records += int64(records)
	e.stats.bytes += int64(bytes)
	e.stats.transactions++
	e.mu.Unlock()
	e.limit.used(time.Now(), records, bytes)
	e.noteConnected()
}
