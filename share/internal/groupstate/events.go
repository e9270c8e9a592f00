package groupstate

import (
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/share/sharelog"
)

// EventInitialize begins a share-partition, or begins it anew at another start offset. The leader
// epoch stays what it was. Kafka: InitializeShareGroupState.
type EventInitialize struct {
	StateEpoch int32
	Start      int64 // -1: to be found by who leads the partition
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
	m.snapshot(now, v)
	m.reply(e.To, nil, nil)
}

// complete is on how many records from a start offset on the delivery is complete where a
// share-partition begins: it is not known as long as that is not.
func complete(start int64) int32 { return int32(max(-1, min(0, start))) }

// EventBegin begins a share-partition, unless there is one.
type EventBegin struct {
	Start int64 // -1: to be found by who leads the partition
	To    machine.Ticket
}

func (e EventBegin) step(m *Machine, now time.Time) {
	if m.value == nil {
		m.snapshot(now, sharelog.Value{Start: e.Start, Complete: complete(e.Start)})
	}
	m.reply(e.To, nil, nil)
}

// EventReset begins a share-partition anew at another start offset, in the next state epoch.
type EventReset struct {
	Start int64
	To    machine.Ticket
}

func (e EventReset) step(m *Machine, now time.Time) {
	v := sharelog.Value{Start: e.Start, Complete: complete(e.Start)}
	if m.value != nil {
		v.StateEpoch, v.LeaderEpoch = m.value.StateEpoch+1, m.value.LeaderEpoch
	}
	m.snapshot(now, v)
	m.reply(e.To, nil, nil)
}

// EventRead is answered with the *sharelog.Value. The reader leads the partition from now on: who
// led it in an earlier epoch writes no more. Kafka: ReadShareGroupState.
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

// EventSummary is EventRead without consequences. Kafka: ReadShareGroupStateSummary.
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
	Batches                 []sharelog.Batch // by offset, without overlaps; they are the machine's
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

// EventDelete forgets the share-partition. It is no error if there is none. Kafka:
// DeleteShareGroupState.
type EventDelete struct{ To machine.Ticket }

func (e EventDelete) step(m *Machine, _ time.Time) {
	if m.value != nil {
		m.eff.Records = []sharelog.Record{{Key: m.key}}
	}
	m.reply(e.To, nil, nil)
}

// EventSnapshot writes all that there is once more, so that the log before it is not needed for it.
type EventSnapshot struct{ To machine.Ticket }

func (e EventSnapshot) step(m *Machine, now time.Time) {
	if m.value != nil {
		m.snapshot(now, *m.value)
	}
	m.reply(e.To, nil, nil)
}

// EventNothing is all that the runtime says by itself: a share-partition has no deadlines.
type EventNothing struct{}

func (EventNothing) step(*Machine, time.Time) {}
