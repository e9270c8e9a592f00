package lifecycle

import (
	"errors"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction/txnlog"
)

// EventEnd is an EndTxn request. The reply is a Producer: to a client of version 2 under which it
// goes on, with its sequences from 0, else both are -1. The outcome is decided when the reply is
// sent; the markers come later.
type EventEnd struct {
	ProducerID int64
	Epoch      int16
	Commit     bool
	Version    int16  // transaction.version of the client: 0 or 2
	NewID      *int64 // nobody ever had it; nil: none at hand, see ErrNoProducerID
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

// checkWithoutBump decides about a client before version 2: again says that it has been done
// already. The epoch does not tell transactions of one producer apart: a request that comes late
// ends the next one (see docs/findings.md).
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

// check decides about a client of version 2, which shows the epoch of the transaction that it
// means: one below the present epoch if that transaction's outcome is decided; again says that it
// is what e asks for, and that all of it is done.
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

// beforeNewID reports whether the client shows its last epoch, after whose transaction it has got
// another id.
func (e EventEnd) beforeNewID(v *txnlog.Value) bool {
	return v.State.Complete() && v.ProducerID != e.ProducerID && v.PreviousID == e.ProducerID && e.Epoch == lastEpoch && v.Epoch == 0
}

// complete returns the state that e leads to.
func (e EventEnd) complete() txnlog.State {
	if e.Commit {
		return txnlog.CompleteCommit
	}
	return txnlog.CompleteAbort
}

// end decides the outcome of the transaction, or aborts an empty one. It returns what the producer
// goes on with; ok is false, and nothing has happened, if it needs an id.
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

// fence aborts the transaction under way so that its producer cannot go on with it. It reports
// whether it could: a producer in its last epoch needs another id.
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

// decide emits the record that decides the outcome. The markers are written when it is committed:
// before that, another coordinator could decide otherwise.
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

// mark begins to write the markers of v, which is prepared, and returns what is to be done when
// that is committed.
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

// EventAwaitEnd asks when no transaction is being ended any more: the reply, which carries no
// error, comes once the record is committed that completes the one whose outcome is decided, if
// there is one. Markers are written everywhere then.
type EventAwaitEnd struct {
	Until time.Time // from then on the answer is ErrConcurrent, if it has to wait
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

// EventMarked says that markers are written, and replicated, in some of their partitions, or that
// these do not exist any more. With the last one the transaction is complete. Markers that the
// machine does not wait for, since it was loaded again or has gone on, change nothing: they are
// told by identity. The reply carries no error.
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
		delete(m.live.left, tp) // no part of the draft: it stays true
	}
	if len(m.live.left) > 0 {
		return
	}
	v := m.next(now)
	complete(v)
	m.become(v) // is not larger than the record before it: the log does not refuse it
	// Nobody waits for it but the producer's next transaction, whose record it can share a batch
	// with.
	m.eff.Lingers = true
	m.draft = live{}
}

// complete ends a transaction that is marked everywhere. A producer whose epochs are used up has
// its next id from here on.
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

// EventLoaded says that recovery is through: markers of a transaction whose outcome is decided are
// written again, in whatever partitions they are already.
type EventLoaded struct{}

func (EventLoaded) step(m *Machine, now time.Time) {
	switch {
	case m.value == nil || !m.value.State.Prepared():
	case len(m.value.Partitions) == 0: // Kafka's coordinator died between its two records
		v := m.next(now)
		complete(v)
		m.become(v)
	default:
		m.eff.Committed = m.mark(m.value)
	}
}
