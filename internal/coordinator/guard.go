package coordinator

import (
	"context"
	"errors"

	"github.com/stratalog/strata/partition"
)

// A guarded is a moment at which the partition was asked to let a producer's transaction in.
type guarded struct {
	producer *producer // nil: it was not known
	ends     int       // markers of it that there were
}

// errUnguarded says that a marker has come since.
var errUnguarded = errors.New("coordinator: the guard of the transaction was ended")

// doInTxn is Do for a request whose records belong to a transaction: begin is called while the
// partition lets them in. What it refuses after a step would have the shard loaded again.
func (s *Shard[M, E, R]) doInTxn(ctx context.Context, id string, w partition.TxnWrite, begin func(q *Request[M, E, R])) (any, error) {
	for {
		since, err := s.guard(ctx, w)
		if err != nil {
			return nil, err
		}
		v, err := s.Do(ctx, id, func(q *Request[M, E, R]) {
			if s.producers.guarded(w, since) {
				begin(q)
			} else {
				q.Answer(nil, errUnguarded)
			}
		})
		if !errors.Is(err, errUnguarded) {
			return v, err
		}
	}
}

// guard has the partition let in what is written in a transaction from the moment that it returns
// on. It asks nobody if the transaction is open: with all that was accepted, the log will have it
// before the records to come. A marker that was accepted is waited for: until the log has it, the
// partition takes the transaction that it ends for open.
func (s *Shard[M, E, R]) guard(ctx context.Context, w partition.TxnWrite) (since guarded, err error) {
	for {
		if err := s.lockLoaded(ctx); err != nil {
			return since, err
		}
		if since.producer = s.producers.m[w.ProducerID]; since.producer == nil {
			break
		}
		since.ends = since.producer.ends
		marker := since.producer.marker
		if since.producer.inTransaction(w.ProducerEpoch) {
			s.mu.Unlock()
			return since, nil
		}
		if marker == nil || marker.committed {
			break
		}
		written := &call{result: make(chan result, 1)}
		marker.replies = append(marker.replies, parked{call: written})
		s.mu.Unlock()
		select {
		case <-written.result: // if it failed, the shard is loaded again, or has ended
		case <-ctx.Done():
			return since, ctx.Err()
		}
	}
	s.mu.Unlock()
	l, err := s.r.store.Log(s.partition, s.led)
	if err != nil {
		return since, retriable(err)
	}
	answer := make(chan error, 1)
	l.GuardTransaction(w, func(err error) { answer <- err })
	select {
	case err := <-answer:
		return since, err
	case <-ctx.Done():
		return since, ctx.Err()
	}
}

// guarded reports whether the partition takes records of a transaction that it was asked about, or
// that was open, at a moment.
func (s *producers) guarded(w partition.TxnWrite, since guarded) bool {
	p := s.m[w.ProducerID]
	switch {
	case p.inTransaction(w.ProducerEpoch):
		return true
	case p != since.producer: // it is new, or the shard was loaded again
		return false
	}
	return p == nil || p.ends == since.ends || p.ended < w.ProducerEpoch
}
