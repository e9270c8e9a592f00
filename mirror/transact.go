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
// transaction, or in several after one that timed out. It repeats each until it is committed.
func (e *engine) transact(moves map[*flow][]reached, b *consumer.Batch) error {
	defer e.noteSending(nil, false)
	for rest := spansOf(b); ; {
		e.noteSending(rest, true)
		err := e.retry(e.work, func() (err error) {
			rest, err = e.part(moves, rest)
			if err != nil && e.ctx.Err() != nil && !isFinal(err) {
				return e.ctx.Err() // no further attempt
			}
			return err
		})
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			break
		}
		if err := e.gate(); err != nil {
			return err
		}
	}
	if b != nil {
		b.Release()
	}
	return nil
}

// attempt is one transaction. After an error nothing of it is visible at the target, unless work
// has ended: then the next Run finds out.
func (e *engine) attempt(moves map[*flow][]reached, spans []span) error {
	ctx, cancel := context.WithTimeout(e.work, beginWait)
	tx, err := e.producer.Begin(ctx)
	cancel()
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if err = e.verified(); err == nil {
		if err = e.send(tx, moves, spans); err == nil {
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
	e.noteCommit(moves, spans)
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
func (e *engine) send(tx *producer.Txn, moves map[*flow][]reached, spans []span) error {
	if len(spans) > 0 {
		targets := make(map[string]string, len(e.flows))
		for _, fl := range e.flows {
			targets[fl.source] = fl.target
		}
		for _, s := range spans {
			e.buffer = append(e.buffer[:0], s.records...)
			for i := range e.buffer {
				r := &e.buffer[i]
				if r.Timestamp.IsZero() { // it would get the present time
					return fmt.Errorf("%w: %v", producer.ErrInvalidTimestamp, r.Timestamp)
				}
				r.Topic = targets[s.tp.Topic]
				*r = r.To(s.tp.Partition)
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
func (e *engine) noteCommit(moves map[*flow][]reached, spans []span) {
	records, bytes := measure(spans)
	e.mu.Lock()
	for fl, next := range moves {
		fl.reached = slices.Clone(next)
	}
	for _, sent := range spans {
		if s := e.stateOf(sent.tp); s != nil {
			s.head, s.newest = time.Time{}, sent.records[len(sent.records)-1].Timestamp
		}
	}
	e.stats.records += int64(records)
	e.stats.bytes += int64(bytes)
	e.stats.transactions++
	e.mu.Unlock()
	e.limit.used(time.Now(), records, bytes)
	e.noteConnected()
}
