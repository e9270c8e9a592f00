package lifecycle

import (
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction/txnlog"
)

// EventAdd adds partitions to the transaction, which begins with the first: an AddPartitionsToTxn
// or AddOffsetsToTxn request, or a write of a client of version 2. The reply carries only an error;
// nothing may be written to the partitions before it.
type EventAdd struct {
	ProducerID int64
	Epoch      int16
	Partitions []record.TopicPartition
	Version    int16 // transaction.version of the client: 0 or 2

	// Until is how long it may wait for the markers of the transaction before. The record that
	// begins this one follows the one that completes that one then, in the same batch. Zero: the
	// answer is ErrConcurrent at once, as it is afterwards.
	Until time.Time
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
	m.become(v)
	m.reply(e.To, nil, nil)
}

// lacks reports whether a partition is not in the transaction.
func (m *Machine) lacks(tp record.TopicPartition) bool {
	_, there := slices.BinarySearchFunc(m.value.Partitions, tp, compare)
	return !there
}

// EventVerify asks whether partitions are in the transaction, before a client that adds them by
// itself writes there: else what it writes could come behind the markers and stay open for ever
// (KIP-890). The reply is a []error, one for each partition: nil or ErrAbortable.
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
