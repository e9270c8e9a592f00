package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// A Marker ends the transaction of a producer in a partition.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32 // leader epoch of the transaction coordinator's own partition
	Commit           bool  // false: abort

	// Version is the transaction.version of the transaction. From 2 on a marker's epoch is one
	// above its records'. A marker with the epoch of open records is a late one of the previous
	// transaction.
	Version int16
}

const markersBumpEpoch = 2

// EndTransaction writes a marker after all accepted records, and returns when it is committed: the
// pending records of the transaction are then applied or dropped. A producer without an open
// transaction gets its marker too.
//
// It returns machine.ErrInvalidProducerEpoch or machine.ErrCoordinatorFenced, without a write, or
// an error of Do. If ctx is done first, the marker may still be written.
func (s *Shard[M, E, R]) EndTransaction(ctx context.Context, m Marker) error {
	if err := s.lockLoaded(ctx); err != nil {
		return err
	}
	if err := s.producers.mayEnd(m); err != nil {
		s.mu.Unlock()
		return err
	}
	w, c := &write{txn: &inTxn{end: &m}}, &call{result: make(chan result, 1)}
	w.replies = []parked{{call: c}}
	s.writes = append(s.writes, w)
	for id := range s.producers.end(m, time.Now()) {
		if e := s.entries[id]; e != nil {
			any(e.m).(machine.Transactional[R]).ApplyEnd(m.ProducerID, m.Commit)
			e.last = w
			s.dropForgottenLocked(e)
			s.notifyLocked(id)
		}
	}
	s.producers.m[m.ProducerID].marker = w
	s.startWriterLocked()
	s.mu.Unlock()
	select {
	case r := <-c.result:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inTxn is the transaction that a write belongs to.
type inTxn struct {
	machine.Producer
	end *Marker // if set, the write is this marker only
}

// marker encodes the marker.
func (t *inTxn) marker() []byte {
	kind := record.ControlAbort
	if t.end.Commit {
		kind = record.ControlCommit
	}
	return record.ControlBatch(nil, kind, t.end.CoordinatorEpoch, record.ControlInfo{
		LeaderEpoch: -1, TimestampMs: time.Now().UnixMilli(), ProducerID: t.end.ProducerID, ProducerEpoch: t.end.ProducerEpoch,
	})
}

// joins reports whether records of p's transaction, or of none if p is nil, may share a write with
// those in t.
func (t *inTxn) joins(p *machine.Producer) bool {
	if t == nil || p == nil {
		return t == nil && p == nil
	}
	return t.end == nil && t.Producer == *p
}

// producers has the producers that wrote to a partition in transactions. With it a Shard rejects in
// advance records that the partition would reject: a failed append would make it load again.
type producers struct {
	m     map[int64]*producer
	swept time.Time // time of the last sweep
}

type producer struct {
	epoch            int16
	coordinatorEpoch int32               // of its newest marker; -1 if none
	open             map[string]struct{} // machines with records in its open transaction
	seen             time.Time

	marker *write // the newest written since the Shard was loaded; nil if none
	ends   int    // number of markers
	ended  int16  // the last epoch whose guards are void since the newest marker
}

// inTransaction reports whether a transaction of that epoch is open. p may be nil.
func (p *producer) inTransaction(epoch int16) bool {
	return p != nil && p.epoch == epoch && len(p.open) > 0
}

// producerExpiry is the time after which a producer without an open transaction is dropped. Kafka:
// producer.id.expiration.ms.
const producerExpiry = 24 * time.Hour

// mayWrite returns the error for records of p, or nil.
func (s *producers) mayWrite(p machine.Producer) error {
	if known := s.m[p.ID]; known != nil && p.Epoch < known.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, newest is %d", machine.ErrInvalidProducerEpoch, p.ID, p.Epoch, known.epoch)
	}
	return nil
}

// wrote records that p has records of a machine in its transaction.
func (s *producers) wrote(p machine.Producer, id string, now time.Time) {
	e := s.get(p.ID, now)
	e.epoch = p.Epoch
	if e.open == nil {
		e.open = make(map[string]struct{})
	}
	e.open[id] = struct{}{}
}

// mayEnd returns the error for a marker, or nil.
func (s *producers) mayEnd(m Marker) error {
	known := s.m[m.ProducerID]
	switch {
	case known == nil:
		return nil
	case m.ProducerEpoch < known.epoch, m.Version >= markersBumpEpoch && m.ProducerEpoch == known.epoch && len(known.open) > 0:
		return fmt.Errorf("%w: marker of producer %d has epoch %d, newest is %d", machine.ErrInvalidProducerEpoch, m.ProducerID, m.ProducerEpoch, known.epoch)
	case m.CoordinatorEpoch < known.coordinatorEpoch:
		return fmt.Errorf("%w: producer %d: epoch %d, newest is %d", machine.ErrCoordinatorFenced, m.ProducerID, m.CoordinatorEpoch, known.coordinatorEpoch)
	}
	return nil
}

// end records a marker, and returns the machines with records in the transaction.
func (s *producers) end(m Marker, now time.Time) (had map[string]struct{}) {
	e := s.get(m.ProducerID, now)
	e.epoch, e.coordinatorEpoch, had, e.open = m.ProducerEpoch, m.CoordinatorEpoch, e.open, nil
	if e.ended = m.ProducerEpoch; m.Version >= markersBumpEpoch {
		e.ended--
	}
	e.ends++
	return had
}

// get returns a producer, and adds it if there is none.
func (s *producers) get(id int64, now time.Time) *producer {
	e := s.m[id]
	if e == nil {
		s.sweep(now)
		e = &producer{epoch: -1, coordinatorEpoch: -1}
		if s.m == nil {
			s.m = make(map[int64]*producer)
		}
		s.m[id] = e
	}
	e.seen = now
	return e
}

// sweep drops expired producers, at most every ten minutes. It needs no timer: it runs when a
// producer is added.
func (s *producers) sweep(now time.Time) {
	if now.Sub(s.swept) < 10*time.Minute {
		return
	}
	s.swept = now
	for id, e := range s.m {
		if len(e.open) == 0 && now.Sub(e.seen) >= producerExpiry {
			delete(s.m, id)
		}
	}
}
