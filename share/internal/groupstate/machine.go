package groupstate

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/sharelog"
)

// Errors that the coordinator returns. The comments name Kafka's error codes.
var (
	ErrFencedLeaderEpoch = errors.New("share: leader epoch is fenced")             // FENCED_LEADER_EPOCH
	ErrFencedStateEpoch  = errors.New("share: state epoch is fenced")              // FENCED_STATE_EPOCH
	ErrNotInitialized    = errors.New("share: share-partition is not initialised") // INVALID_REQUEST
	ErrFull              = errors.New("share: no memory is left for new states")   // POLICY_VIOLATION
)

// Config is the configuration of a Machine.
type Config struct {
	// UpdatesPerSnapshot is the number of updates before a snapshot. Kafka:
	// share.coordinator.snapshot.update.records.per.snapshot.
	UpdatesPerSnapshot int
}

// A Machine is one share-partition as a machine.Machine.
type Machine struct {
	key     sharelog.Key
	cfg     *Config
	value   *sharelog.Value // durable: replaced by Apply only, and never written to; nil: there is none
	updates int             // since the last snapshot
	charge  machine.Charge
	kept    int     // bytes charged
	eff     Effects // of the Step under way
}

// Effects are the results of a Step of a Machine.
type Effects = machine.Effects[sharelog.Record]

var _ machine.Machine[Event, sharelog.Record] = (*Machine)(nil)

// New returns the machine of a share-partition that is not initialised. id is a Key.ID, cfg is
// kept.
func New(id string, cfg *Config) *Machine {
	key, _ := sharelog.ParseID(id) // callers have validated id
	return &Machine{key: key, cfg: cfg, charge: machine.Uncharged{}}
}

// Value returns the stored state, which is read-only; nil if there is none.
func (m *Machine) Value() *sharelog.Value { return m.value }

// An Event is an input of a Machine.
type Event interface {
	step(m *Machine, now time.Time)
}

// Step implements machine.Machine.
func (m *Machine) Step(now time.Time, ev Event) Effects {
	m.eff = Effects{}
	ev.step(m, now)
	return m.eff
}

// Accept implements machine.Machine.
func (m *Machine) Accept() {
	for _, r := range m.eff.Records {
		m.Apply(r)
	}
	m.eff = Effects{}
}

// Discard implements machine.Machine.
func (m *Machine) Discard() { m.eff = Effects{} }

// Forgotten implements machine.Machine.
func (m *Machine) Forgotten() bool { return m.value == nil }

// Apply is the only function that changes durable state. An update without its snapshot, of a
// partition that was deleted, changes nothing.
func (m *Machine) Apply(r sharelog.Record) {
	switch {
	case r.Key != m.key:
	case !r.Update:
		m.value, m.updates = r.Value, 0
	case r.Value != nil && m.value != nil:
		m.value = m.value.Apply(r.Value)
		m.updates++
	}
	m.keep()
}

func (m *Machine) reply(to machine.Ticket, value any, err error) {
	m.eff.Replies = append(m.eff.Replies, machine.Reply{To: to, Value: value, Err: err})
}

// snapshot emits v as a snapshot.
func (m *Machine) snapshot(now time.Time, v sharelog.Value) {
	v.CreateMs, v.WriteMs = now.UnixMilli(), now.UnixMilli()
	if m.value != nil {
		v.SnapshotEpoch, v.CreateMs = m.value.SnapshotEpoch+1, m.value.CreateMs
	}
	m.eff.Records = []sharelog.Record{{Key: m.key, Value: &v}}
}

// update emits u, or after UpdatesPerSnapshot updates the resulting state as a snapshot.
func (m *Machine) update(now time.Time, u sharelog.Value) {
	u.SnapshotEpoch = m.value.SnapshotEpoch
	if m.updates >= m.cfg.UpdatesPerSnapshot {
		m.snapshot(now, *m.value.Apply(&u))
		return
	}
	m.eff.Records = []sharelog.Record{{Key: m.key, Update: true, Value: &u}}
}

// fenced returns the error for a decision of these epochs if one of them is out of date; -1: any
// epoch.
func (m *Machine) fenced(leaderEpoch, stateEpoch int32) error {
	switch {
	case m.value == nil:
		return ErrNotInitialized
	case leaderEpoch != -1 && leaderEpoch < m.value.LeaderEpoch:
		return fmt.Errorf("%w: %d, now it is %d", ErrFencedLeaderEpoch, leaderEpoch, m.value.LeaderEpoch)
	case stateEpoch != -1 && stateEpoch < m.value.StateEpoch:
		return fmt.Errorf("%w: %d, now it is %d", ErrFencedStateEpoch, stateEpoch, m.value.StateEpoch)
	}
	return nil
}
