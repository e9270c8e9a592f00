package lifecycle

import (
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/transaction/txnlog"
)

// EventInit is an InitProducerId request: a producer begins, or goes on after an error, and fences
// whoever had the id before. The reply is a Producer. While a transaction is under way, or not yet
// marked everywhere, it is aborted and the reply is ErrConcurrent: the producer asks again.
type EventInit struct {
	Timeout    time.Duration // of the transactions to come, at least 1 ms
	ProducerID int64         // what the producer had before, with its epoch; -1: it begins
	Epoch      int16
	NewID      *int64 // nobody ever had it; nil: none at hand, see ErrNoProducerID
	To         machine.Ticket
}

// A Producer is the identity under which a producer writes; both are -1 if it is not told.
type Producer struct {
	ID    int64
	Epoch int16
}

func (e EventInit) step(m *Machine, now time.Time) {
	v, goesOn := m.value, e.ProducerID >= 0
	switch {
	case e.Timeout < time.Millisecond || e.Timeout > m.cfg.MaxTimeout:
		m.reply(e.To, nil, ErrInvalidTimeout)
	case v == nil:
		e.create(m, now)
	case goesOn && !e.mayGoOn(m):
		m.reply(e.To, nil, ErrProducerFenced)
	case v.State.Prepared():
		m.reply(e.To, nil, ErrConcurrent)
	case v.State == txnlog.Ongoing && goesOn && e.Epoch != v.Epoch:
		m.reply(e.To, nil, ErrProducerFenced)
	case v.State == txnlog.Ongoing:
		err := ErrConcurrent
		if !m.fence(now, e.NewID) {
			err = ErrNoProducerID
		}
		m.reply(e.To, nil, err)
	default:
		e.renew(m, now)
	}
}

// create makes the id, also for a producer that had it until it expired.
func (e EventInit) create(m *Machine, now time.Time) {
	if e.NewID == nil {
		m.reply(e.To, nil, ErrNoProducerID)
		return
	}
	m.become(&txnlog.Value{ProducerID: *e.NewID, TimeoutMs: int32(e.Timeout.Milliseconds()), State: txnlog.Empty,
		UpdateMs: now.UnixMilli(), StartMs: -1, PreviousID: *e.NewID, NextID: -1, LastEpoch: -1})
	m.reply(e.To, Producer{ID: *e.NewID}, nil)
}

// mayGoOn reports whether the producer id is the present one, or the one before whose epochs were
// used up: the producer may not have heard of its new id.
func (e EventInit) mayGoOn(m *Machine) bool {
	v := m.value
	if e.Epoch < 0 || e.Epoch > lastEpoch {
		return false
	}
	return e.ProducerID == v.ProducerID || e.ProducerID == v.PreviousID && e.Epoch == lastEpoch || m.ahead(e.ProducerID)
}

// renew gives the producer its next epoch, or an id with epochs left. One that shows the epoch
// before is answered with the present one: it asks again, since the reply was lost, and nobody
// else has asked meanwhile.
func (e EventInit) renew(m *Machine, now time.Time) {
	v := m.next(now)
	begins := e.ProducerID < 0
	switch {
	case v.Epoch >= lastEpoch && (begins || e.Epoch == v.Epoch):
		if e.NewID == nil {
			m.reply(e.To, nil, ErrNoProducerID)
			return
		}
		v.ProducerID, v.Epoch, v.LastEpoch = *e.NewID, 0, v.Epoch
	case begins || e.Epoch == v.Epoch:
		v.Epoch, v.LastEpoch = v.Epoch+1, v.Epoch
	case e.Epoch == v.LastEpoch && v.Epoch <= lastEpoch:
		v.PreviousID = m.value.PreviousID // it may ask once more
	default:
		m.reply(e.To, nil, ErrProducerFenced)
		return
	}
	if begins {
		v.LastEpoch = -1
	}
	v.State, v.TimeoutMs, v.StartMs, v.Partitions = txnlog.Empty, int32(e.Timeout.Milliseconds()), -1, nil
	m.become(v)
	m.reply(e.To, Producer{v.ProducerID, v.Epoch}, nil)
}
