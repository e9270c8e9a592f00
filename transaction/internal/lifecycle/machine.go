package lifecycle

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

// Config is the configuration of a Machine. It may change between two steps.
type Config struct {
	Version    int16         // level of the feature transaction.version: 0 to 2
	MaxTimeout time.Duration // transaction.max.timeout.ms, at most 2^31-1 ms
	Expiration time.Duration // transactional.id.expiration.ms; 0: never
}

// epochBump is the level of transaction.version from which each end of a transaction raises the
// producer's epoch (KIP-890), so that a late request cannot affect the next one.
const epochBump = 2

// lastEpoch is the last epoch of a producer id. The one above it is for the markers of its last
// transaction, and for fencing.
const lastEpoch = math.MaxInt16 - 1

// A Machine is one transactional id as a machine.Machine. It is not safe for concurrent use: the
// mutex of its shard guards it.
type Machine struct {
	id  string
	cfg *Config

	value *txnlog.Value // durable: replaced by Apply, never written to; nil if the id does not exist
	live  live
	draft live    // replaces live when the step is accepted
	eff   Effects // of the present step

	charge machine.Charge
	kept   int // bytes of the state, see bytesOf
}

// live is a machine's state beyond its record: the unwritten markers of a decided transaction.
// After a load, by this or another broker, EventLoaded makes it from the record, and all markers
// are written again.
type live struct {
	markers *Markers                           // being written; nil if none
	left    map[record.TopicPartition]struct{} // partitions without a confirmed marker
}

// Markers are to be written to each of the partitions. An EventMarked reports each that is written,
// or whose partition no longer exists. A step returns them as Effects.Committed, for the time when
// its record is committed; a recovery returns equal ones.
type Markers struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Commit     bool
	Version    int16                   // transaction.version for the epoch check in the partitions
	Partitions []record.TopicPartition // by topic and number; read-only
}

// NeedsProducerID is a Notice: the owner is to step an EventTick with a NewID.
type NeedsProducerID struct{ ID string }

// Effects are the results of a Step.
type Effects = machine.Effects[txnlog.Record]

var _ machine.Machine[Event, txnlog.Record] = (*Machine)(nil)

// New returns the machine of an id that does not exist yet: Apply its records from the log, or Step
// an EventInit. It keeps cfg.
func New(id string, cfg *Config) *Machine {
	return &Machine{id: id, cfg: cfg, charge: machine.Uncharged{}}
}

// Value returns the state of the id, which is read-only; nil if the id does not exist.
func (m *Machine) Value() *txnlog.Value { return m.value }

// State returns the state of the id.
func (m *Machine) State() txnlog.State {
	if m.value == nil {
		return txnlog.Dead
	}
	return m.value.State
}

// An Event is an input of a Machine: EventInit, EventTick and so on.
type Event interface {
	step(m *Machine, now time.Time)
}

// Step implements machine.Machine.
func (m *Machine) Step(now time.Time, ev Event) Effects {
	m.draft = m.live
	m.eff.WakeAt = deadline(m.value)
	ev.step(m, now)
	return m.eff
}

// Accept implements machine.Machine.
func (m *Machine) Accept() {
	m.live = m.draft
	for _, r := range m.eff.Records {
		m.Apply(r)
	}
	m.eff = Effects{}
}

// Discard implements machine.Machine. Written markers stay recorded.
func (m *Machine) Discard() { m.eff = Effects{} }

// Apply is the only function that changes durable state. It runs for the record of a Step and at
// recovery. Records of other ids are ignored.
func (m *Machine) Apply(r txnlog.Record) {
	if r.ID != m.id {
		return
	}
	m.value = r.Value
	switch v := r.Value; {
	case v == nil:
	case v.State == txnlog.Dead:
		m.value = nil
	case !slices.IsSortedFunc(v.Partitions, compare): // Kafka's are in the order of a hash table
		sorted := *v
		sorted.Partitions = slices.Clone(v.Partitions)
		slices.SortFunc(sorted.Partitions, compare)
		m.value = &sorted
	}
	m.keep()
}

// Forgotten implements machine.Machine.
func (m *Machine) Forgotten() bool { return m.value == nil }

func compare(a, b record.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func (m *Machine) reply(to machine.Ticket, value any, err error) {
	if to != 0 {
		m.eff.Replies = append(m.eff.Replies, machine.Reply{To: to, Value: value, Err: err})
	}
}

// later defers the event of a request: see machine.Reply.
func (m *Machine) later(to machine.Ticket, at time.Time) {
	if to != 0 {
		m.eff.Replies = append(m.eff.Replies, machine.Reply{To: to, Later: at})
	}
}

// next returns a copy of the state to change and pass to become.
func (m *Machine) next(now time.Time) *txnlog.Value {
	v := *m.value
	v.PreviousID = v.ProducerID
	v.UpdateMs = max(now.UnixMilli(), v.UpdateMs)
	return &v
}

// become emits v as the next state. A step calls it at most once.
func (m *Machine) become(v *txnlog.Value) {
	m.eff.Records = []txnlog.Record{{ID: m.id, Value: v}}
	m.eff.WakeAt = deadline(v)
}

// deadline returns the time to abort an ongoing transaction; zero if there is none.
func deadline(v *txnlog.Value) time.Time {
	if v == nil || v.State != txnlog.Ongoing {
		return time.Time{}
	}
	return time.UnixMilli(v.StartMs + int64(v.TimeoutMs))
}

// check returns an error if a request about the present or the next transaction is not from its
// producer.
func (m *Machine) check(producerID int64, epoch int16) error {
	v := m.value
	switch {
	case v == nil:
		return ErrInvalidProducerMapping
	case m.ahead(producerID) && epoch == 0:
		return ErrConcurrent
	case producerID != v.ProducerID:
		return ErrInvalidProducerMapping
	case epoch != v.Epoch || epoch > lastEpoch:
		return ErrProducerFenced
	case v.State.Prepared():
		return ErrConcurrent
	}
	return nil
}

// ahead reports whether a producer uses its next id already, from the reply to EndTxn, while the
// last transaction of its old id is being marked.
func (m *Machine) ahead(producerID int64) bool {
	return m.value.State.Prepared() && m.value.NextID >= 0 && producerID == m.value.NextID
}
