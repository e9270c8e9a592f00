package groupstate

import (
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/sharelog"
)

// EventInitialize initialises a share-partition, or resets it to another start offset. The leader
// epoch stays. Kafka: InitializeShareGroupState.
type EventInitialize struct {
	StateEpoch int32
	Start      int64 // -1 if the partition's leader is to find it
	Bound      machine.Bound
	To         machine.Ticket
}

func (e EventInitialize) step(m *Machine, now time.Time) {
	v := sharelog.Value{StateEpoch: e.StateEpoch, Start: e.Start, Complete: complete(e.Start)}
	if m.value != nil {
		if err := m.fenced(-1, e.StateEpoch); err != nil {
			m.reply(e.To, nil, err)
			return
		}
		v.LeaderEpoch = m.value.LeaderEpoch
	}
	m.begin(now, v, e.Bound, e.To)
}

// begin emits v, which may be the first state.
func (m *Machine) begin(now time.Time, v sharelog.Value, b machine.Bound, to machine.Ticket) {
	if !m.fits(b) {
		m.reply(to, nil, ErrFull)
		return
	}
	m.snapshot(now, v)
	m.reply(to, nil, nil)
}

// complete returns the Complete of a new share-partition: 0, or -1 (unknown) if its start offset is
// unknown.
func complete(start int64) int32 { return int32(max(-1, min(0, start))) }

// EventBegin begins a share-partition, unless there is one.
type EventBegin struct {
	Start int64 // -1 if the partition's leader is to find it
	Bound machine.Bound
	To    machine.Ticket
}

func (e EventBegin) step(m *Machine, now time.Time) {
	if m.value != nil {
		m.reply(e.To, nil, nil)
		return
	}
	m.begin(now, sharelog.Value{Start: e.Start, Complete: complete(e.Start)}, e.Bound, e.To)
}

// EventReset resets a share-partition to another start offset, in the next state epoch.
type EventReset struct {
	Start int64
	Bound machine.Bound
	To    machine.Ticket
}

func (e EventReset) step(m *Machine, now time.Time) {
	v := sharelog.Value{Start: e.Start, Complete: complete(e.Start)}
	if m.value != nil {
		v.StateEpoch, v.LeaderEpoch = m.value.StateEpoch+1, m.value.LeaderEpoch
	}
	m.begin(now, v, e.Bound, e.To)
}

// EventRead reads the state for the partition's leader. The reply is a *sharelog.Value. Later
// writes of earlier leader epochs are rejected. Kafka: ReadShareGroupState.
type EventRead struct {
	LeaderEpoch int32
	To          machine.Ticket
}

func (e EventRead) step(m *Machine, now time.Time) {
	if err := m.fenced(e.LeaderEpoch, -1); err != nil {
		m.reply(e.To, nil, err)
		return
	}
	if e.LeaderEpoch > m.value.LeaderEpoch {
		m.update(now, sharelog.Value{LeaderEpoch: e.LeaderEpoch, Start: m.value.Start, Complete: m.value.Complete})
	}
	m.reply(e.To, m.value, nil)
}

// EventSummary is EventRead, except that it does not fence earlier leaders. Kafka:
// ReadShareGroupStateSummary.
type EventSummary struct{ To machine.Ticket }

func (e EventSummary) step(m *Machine, _ time.Time) {
	if m.value == nil {
		m.reply(e.To, nil, ErrNotInitialized)
		return
	}
	m.reply(e.To, m.value, nil)
}

// EventWrite stores a change. Kafka: WriteShareGroupState.
type EventWrite struct {
	LeaderEpoch, StateEpoch int32
	Start                   int64 // -1: as before
	Complete                int32
	Batches                 []sharelog.Batch // by offset, without overlaps; taken
	To                      machine.Ticket
}

func (e EventWrite) step(m *Machine, now time.Time) {
	if err := m.fenced(e.LeaderEpoch, e.StateEpoch); err != nil {
		m.reply(e.To, nil, err)
		return
	}
	m.update(now, sharelog.Value{LeaderEpoch: e.LeaderEpoch, Start: e.Start, Complete: e.Complete, Batches: e.Batches})
	m.reply(e.To, nil, nil)
}

// EventDelete deletes the share-partition, if it exists. Kafka: DeleteShareGroupState.
type EventDelete struct{ To machine.Ticket }

func (e EventDelete) step(m *Machine, _ time.Time) {
	if m.value != nil {
		m.eff.Records = []sharelog.Record{{Key: m.key}}
	}
	m.reply(e.To, nil, nil)
}

// EventSnapshot writes the whole state again, so that earlier records of it are no longer needed.
type EventSnapshot struct{ To machine.Ticket }

func (e EventSnapshot) step(m *Machine, now time.Time) {
	if m.value != nil {
		m.snapshot(now, *m.value)
	}
	m.reply(e.To, nil, nil)
}

// EventNothing is used for all of the runtime's own events: a share-partition has no deadlines.
type EventNothing struct{}

func (EventNothing) step(*Machine, time.Time) {}
