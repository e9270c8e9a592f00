package lifecycle

import (
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

// EventAdd adds partitions to the transaction, which begins with the first. It is an
// AddPartitionsToTxn or AddOffsetsToTxn request, or a write of a client of version 2. The reply has
// only an error; before it no record may be written to the partitions.
type EventAdd struct {
	ProducerID int64
	Epoch      int16
	Partitions []record.TopicPartition
	Version    int16 // transaction.version of the client: 0 or 2

	// Until is how long it may wait for the markers of the previous transaction. The record that
	// begins this one then follows the completing record in the same batch. Afterwards, or at once
	// if it is zero, the reply is ErrConcurrent.
	Until time.Time
	Bound machine.Bound
	To    machine.Ticket
}

func (e EventAdd) step(m *Machine, now time.Time) {
	err := m.check(e.ProducerID, e.Epoch)
	switch {
	case errors.Is(err, ErrConcurrent) && now.Before(e.Until):
		m.later(e.To, e.Until)
		return
	case err != nil:
		m.reply(e.To, nil, err)
		return
	}
	if m.value.State == txnlog.Ongoing && !slices.ContainsFunc(e.Partitions, m.lacks) {
		m.reply(e.To, nil, nil)
		return
	}
	v := m.next(now)
	if v.State != txnlog.Ongoing {
		v.State, v.StartMs = txnlog.Ongoing, now.UnixMilli()
	}
	v.Partitions = slices.Concat(v.Partitions, e.Partitions)
	slices.SortFunc(v.Partitions, compare)
	v.Partitions = slices.Compact(v.Partitions)
	v.ClientVersion = e.Version
	if !m.fits(e.Bound, v) {
		m.reply(e.To, nil, ErrFull)
		return
	}
	m.become(v)
	m.reply(e.To, nil, nil)
}

// lacks reports whether a partition is not in the transaction.
func (m *Machine) lacks(tp record.TopicPartition) bool {
	_, there := slices.BinarySearchFunc(m.value.Partitions, tp, compare)
	return !there
}

// EventVerify checks that partitions are in the transaction before a client that adds them itself
// writes there. Otherwise its records could come after the markers and stay open for ever
// (KIP-890). The reply is a []error, for each partition nil or ErrAbortable.
type EventVerify struct {
	ProducerID int64
	Epoch      int16
	Partitions []record.TopicPartition
	To         machine.Ticket
}

func (e EventVerify) step(m *Machine, _ time.Time) {
	if err := m.check(e.ProducerID, e.Epoch); err != nil {
		m.reply(e.To, nil, err)
		return
	}
	errs := make([]error, len(e.Partitions))
	for i, tp := range e.Partitions {
		if m.lacks(tp) {
			errs[i] = ErrAbortable
		}
	}
	m.reply(e.To, errs, nil)
}
