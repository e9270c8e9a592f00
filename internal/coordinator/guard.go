package coordinator

import (
	"context"
	"errors"

	"github.com/stratalog/strata/partition"
)

// A guarded is the state of a producer when the partition accepted its transaction.
type guarded struct {
	producer *producer // nil if it was unknown
	ends     int       // number of its markers until then
}

// errUnguarded reports that a marker has ended the guarded transaction.
var errUnguarded = errors.New("coordinator: the guard of the transaction was ended")

// doInTxn is Do for a request whose records belong to a transaction. begin is called while the
// partition accepts these: after a rejected append the shard would have to be loaded again.
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

// guard makes the partition accept records of a transaction from its return on. If the transaction
// is open in this Shard it returns at once: the log will have its accepted records before later
// ones. It waits for an accepted marker: until the log has it, the partition considers the ended
// transaction open.
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
		case <-written.result: // if it failed, the shard is loading again or has ended
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

// guarded reports whether the partition still accepts the transaction: it is open, or no marker has
// ended it since.
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
