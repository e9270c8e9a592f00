package lifecycle

import (
	"errors"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

// EventEnd is an EndTxn request. The reply is a Producer: for a client of version 2 its next
// identity, with sequences from 0, otherwise -1 in both. The outcome is decided when the reply is
// sent; the markers come later.
type EventEnd struct {
	ProducerID int64
	Epoch      int16
	Commit     bool
	Version    int16  // transaction.version of the client: 0 or 2
	NewID      *int64 // a new producer id; nil if there is none yet, see ErrNoProducerID
	To         machine.Ticket
}

func (e EventEnd) step(m *Machine, now time.Time) {
	var again bool
	var err error
	if e.Version >= epochBump {
		again, err = e.check(m)
	} else {
		again, err = e.checkWithoutBump(m)
	}
	switch {
	case err != nil:
		m.reply(e.To, nil, err)
	case again && e.Version >= epochBump:
		m.reply(e.To, Producer{m.value.ProducerID, m.value.Epoch}, nil)
	case again:
		m.reply(e.To, Producer{-1, -1}, nil)
	default:
		p, ok := m.end(now, e.Commit, e.Version, e.NewID)
		if !ok {
			m.reply(e.To, nil, ErrNoProducerID)
			return
		}
		m.reply(e.To, p, nil)
	}
}

// checkWithoutBump validates a request before version 2. again is set if it is already done. The
// epoch does not distinguish transactions of one producer: a late request ends the next one (see
// docs/explanation/transactions.md).
func (e EventEnd) checkWithoutBump(m *Machine) (again bool, err error) {
	err = m.check(e.ProducerID, e.Epoch)
	switch {
	case errors.Is(err, ErrConcurrent) && e.Commit != (m.value.State == txnlog.PrepareCommit):
		return false, ErrInvalidState
	case err != nil:
		return false, err
	case m.value.State == txnlog.Ongoing:
		return false, nil
	case m.value.State == e.complete():
		return true, nil
	}
	return false, ErrInvalidState
}

// check validates a request of version 2, which has the epoch of its transaction: one below the
// present epoch if the outcome is decided. again is set if that is the requested outcome and all of
// it is done.
func (e EventEnd) check(m *Machine) (again bool, err error) {
	v := m.value
	switch {
	case v == nil:
		return false, ErrInvalidProducerMapping
	case m.ahead(e.ProducerID) && e.Epoch == 0:
		return false, ErrConcurrent
	case e.beforeNewID(v):
		again = v.State.Complete()
	case e.ProducerID != v.ProducerID:
		return false, ErrInvalidProducerMapping
	case e.Epoch == v.Epoch && e.Epoch <= lastEpoch && v.State.Prepared():
		return false, ErrConcurrent
	case e.Epoch == v.Epoch && e.Epoch <= lastEpoch:
	case e.Epoch+1 == v.Epoch && e.Epoch >= 0 && v.State.Prepared():
		if e.Commit != (v.State == txnlog.PrepareCommit) {
			return false, ErrInvalidState
		}
		return false, ErrConcurrent
	case e.Epoch+1 == v.Epoch && e.Epoch >= 0 && v.Epoch <= lastEpoch && v.State.Complete():
		again = true
	default:
		return false, ErrProducerFenced
	}
	switch {
	case again && v.State == e.complete():
		return true, nil
	case again, e.Commit && v.State != txnlog.Ongoing:
		return false, ErrInvalidState
	}
	return false, nil // an abort needs no partitions: the producer may not know whether it has any
}

// beforeNewID reports whether the request has the last epoch of a producer that got another id
// after this transaction.
func (e EventEnd) beforeNewID(v *txnlog.Value) bool {
	return v.State.Complete() && v.ProducerID != e.ProducerID && v.PreviousID == e.ProducerID && e.Epoch == lastEpoch && v.Epoch == 0
}

// complete returns the final state for the request's outcome.
func (e EventEnd) complete() txnlog.State {
	if e.Commit {
		return txnlog.CompleteCommit
	}
	return txnlog.CompleteAbort
}

// end decides the outcome of the transaction, or aborts an empty one. It returns the producer's
// next identity; ok is false, and nothing has changed, if that needs a new id.
func (m *Machine) end(now time.Time, commit bool, version int16, newID *int64) (p Producer, ok bool) {
	v := m.next(now)
	if version < epochBump {
		m.decide(v, commit, version)
		return Producer{-1, -1}, true
	}
	if v.Epoch >= lastEpoch {
		if newID == nil {
			return p, false
		}
		v.NextID = *newID
	}
	v.Epoch, v.LastEpoch = v.Epoch+1, v.Epoch
	p = Producer{v.ProducerID, v.Epoch}
	if v.NextID >= 0 {
		p = Producer{v.NextID, 0}
	}
	m.decide(v, commit, version)
	return p, true
}

// fence aborts the transaction so that its producer cannot continue it. It returns false if that
// needs a new id: the producer is in its last epoch.
func (m *Machine) fence(now time.Time, newID *int64) bool {
	if m.cfg.Version >= epochBump {
		_, ok := m.end(now, false, m.cfg.Version, newID)
		return ok
	}
	v := m.next(now)
	v.Epoch, v.LastEpoch = v.Epoch+1, -1
	m.decide(v, false, 0)
	return true
}

// decide emits the record with the outcome. The markers are written once it is committed: before
// that, another coordinator could decide otherwise.
func (m *Machine) decide(v *txnlog.Value, commit bool, version int16) {
	v.State, v.ClientVersion = txnlog.PrepareAbort, version
	if commit {
		v.State = txnlog.PrepareCommit
	}
	if m.value.State != txnlog.Ongoing {
		v.StartMs = v.UpdateMs
	}
	if len(v.Partitions) == 0 {
		complete(v)
	} else {
		m.eff.Committed = m.mark(v)
	}
	m.become(v)
}

// mark starts the markers of v, whose outcome is decided. It returns them for the time when v is
// committed.
func (m *Machine) mark(v *txnlog.Value) *Markers {
	k := &Markers{ID: m.id, ProducerID: v.ProducerID, Epoch: v.Epoch, Commit: v.State == txnlog.PrepareCommit,
		Version: v.ClientVersion, Partitions: v.Partitions}
	left := make(map[record.TopicPartition]struct{}, len(v.Partitions))
	for _, tp := range v.Partitions {
		left[tp] = struct{}{}
	}
	m.draft = live{k, left}
	return k
}

// EventAwaitEnd waits until no transaction is ending. The reply, without an error, comes once the
// record is committed that completes a decided transaction. All markers are written then.
type EventAwaitEnd struct {
	Until time.Time // from then on the reply is ErrConcurrent
	To    machine.Ticket
}

func (e EventAwaitEnd) step(m *Machine, now time.Time) {
	switch {
	case !m.State().Prepared():
		m.reply(e.To, nil, nil)
	case now.Before(e.Until):
		m.later(e.To, e.Until)
	default:
		m.reply(e.To, nil, ErrConcurrent)
	}
}

// EventMarked reports that markers are written and replicated in some of their partitions, or that
// these no longer exist. With the last one the transaction is complete. Other Markers than the
// machine's present ones, compared by identity, are ignored: the machine was loaded again or has
// continued. The reply has no error.
type EventMarked struct {
	Markers    *Markers
	Partitions []record.TopicPartition
	To         machine.Ticket
}

func (e EventMarked) step(m *Machine, now time.Time) {
	m.reply(e.To, nil, nil)
	if m.live.markers == nil || e.Markers != m.live.markers {
		return
	}
	for _, tp := range e.Partitions {
		delete(m.live.left, tp) // takes effect even if the step is discarded
	}
	if len(m.live.left) > 0 {
		return
	}
	v := m.next(now)
	complete(v)
	m.become(v) // not larger than the record before it, so the log accepts it
	// Only the producer's next transaction waits for it, and their records can share a batch.
	m.eff.Lingers = true
	m.draft = live{}
}

// complete completes a transaction whose markers are all written. A producer whose epochs are used
// up gets its next id here.
func complete(v *txnlog.Value) {
	if v.State == txnlog.PrepareCommit {
		v.State = txnlog.CompleteCommit
	} else {
		v.State = txnlog.CompleteAbort
	}
	if v.NextID >= 0 {
		v.PreviousID, v.ProducerID, v.Epoch, v.NextID = v.ProducerID, v.NextID, 0, -1
	}
	v.Partitions = nil
}

// EventLoaded ends a recovery: all markers of a decided transaction are written again, including
// any that were written before.
type EventLoaded struct{}

func (EventLoaded) step(m *Machine, now time.Time) {
	switch {
	case m.value == nil || !m.value.State.Prepared():
	case len(m.value.Partitions) == 0: // Kafka's coordinator crashed between its two records
		v := m.next(now)
		complete(v)
		m.become(v)
	default:
		m.eff.Committed = m.mark(m.value)
	}
}
