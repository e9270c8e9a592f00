package lifecycle

import (
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
)

// EventInit is an InitProducerId request: a producer starts, or recovers from an error, and fences
// other producers with the transactional id. The reply is a Producer. A transaction that is ongoing
// or not marked everywhere is aborted, and the reply is ErrConcurrent: the producer retries.
type EventInit struct {
	Timeout    time.Duration // of later transactions, at least 1 ms
	ProducerID int64         // the producer's former id; -1 at its start
	Epoch      int16
	NewID      *int64 // a new producer id; nil if there is none yet, see ErrNoProducerID
	Bound      machine.Bound
	To         machine.Ticket
}

// A Producer is the identity of a producer; both are -1 if it stays the same.
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

// create creates the transactional id, also if an earlier one has expired.
func (e EventInit) create(m *Machine, now time.Time) {
	switch {
	case !m.fits(e.Bound, &txnlog.Value{}): // first: a refused request must not use up a producer id
		m.reply(e.To, nil, ErrFull)
		return
	case e.NewID == nil:
		m.reply(e.To, nil, ErrNoProducerID)
		return
	}
	m.become(&txnlog.Value{ProducerID: *e.NewID, TimeoutMs: int32(e.Timeout.Milliseconds()), State: txnlog.Empty,
		UpdateMs: now.UnixMilli(), StartMs: -1, PreviousID: *e.NewID, NextID: -1, LastEpoch: -1})
	m.reply(e.To, Producer{ID: *e.NewID}, nil)
}

// mayGoOn reports whether the producer may continue: it has the present producer id, or the
// previous one whose epochs were used up. It may have missed the reply with its new id.
func (e EventInit) mayGoOn(m *Machine) bool {
	v := m.value
	if e.Epoch < 0 || e.Epoch > lastEpoch {
		return false
	}
	return e.ProducerID == v.ProducerID || e.ProducerID == v.PreviousID && e.Epoch == lastEpoch || m.ahead(e.ProducerID)
}

// renew gives the producer its next epoch, or a new id. A request with the previous epoch gets the
// present one: it is a retry after a lost reply, and no other producer has initialized since.
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
		v.PreviousID = m.value.PreviousID // for another retry
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
