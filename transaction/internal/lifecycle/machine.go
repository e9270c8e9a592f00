package lifecycle

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction/txnlog"
)

// Config is what a Machine needs to know of its coordinator's configuration. It may change between
// two steps.
type Config struct {
	Version    int16         // level of the feature transaction.version: 0 to 2
	MaxTimeout time.Duration // transaction.max.timeout.ms, at most 2^31-1 ms
	Expiration time.Duration // transactional.id.expiration.ms; 0: never
}

// epochBump is the level of transaction.version from which on each end of a transaction gives the
// producer another epoch (KIP-890), so that nothing late can reach the next one.
const epochBump = 2

// lastEpoch is the last epoch that a producer gets. The one above it is left for the markers that
// end its last transaction, and for fencing it.
const lastEpoch = math.MaxInt16 - 1

// A Machine is one transactional id as a machine.Machine. It has no lock of its own: it is
// called under the mutex of the shard that has it.
type Machine struct {
	id  string
	cfg *Config

	value *txnlog.Value // durable: replaced by Apply only, and never written to; nil: no such id
	live  live
	draft live    // what live becomes when the step under way is accepted
	eff   Effects // of the Step under way
}

// live is what a machine knows beyond its record: which markers of a decided transaction are not
// known to be written. When the shard is loaded, here again or at another broker, EventLoaded makes
// it from the record, and has all markers written once more.
type live struct {
	markers *Markers                           // that are being written; nil: none
	left    map[record.TopicPartition]struct{} // those of markers that are not known to be written
}

// Markers are to be written to each of the partitions, and each that is written, or that does not
// exist any more, is to be reported with an EventMarked. They are what a step wants done when its
// record is committed (machine.Effects.Committed), and are the same again after a recovery.
type Markers struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Commit     bool
	Version    int16                   // transaction.version by which partitions are to check the epoch
	Partitions []record.TopicPartition // by topic and number; not to be written to
}

// NeedsProducerID is a Notice: the owner is to feed an EventTick with a NewID.
type NeedsProducerID struct{ ID string }

// Effects are what a Step of a Machine wants done.
type Effects = machine.Effects[txnlog.Record]

var _ machine.Machine[Event, txnlog.Record] = (*Machine)(nil)

// New returns the machine of an id that does not exist yet: Apply what the log holds of it, or Step
// an EventInit. cfg is kept.
func New(id string, cfg *Config) *Machine { return &Machine{id: id, cfg: cfg} }

// Value returns what is remembered of the id, which must not be written to; nil: there is no such
// id.
func (m *Machine) Value() *txnlog.Value { return m.value }

// State returns the state of the id.
func (m *Machine) State() txnlog.State {
	if m.value == nil {
		return txnlog.Dead
	}
	return m.value.State
}

// An Event is something that happens to a transactional id: EventInit, EventTick and so on.
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

// Discard implements machine.Machine. That a marker is written stays known.
func (m *Machine) Discard() { m.eff = Effects{} }

// Apply is the only function that changes durable state. It runs live, for the record that a Step
// emitted, and at recovery alike. Records of other ids change nothing.
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

// next returns what the id is now, to be changed and handed to become.
func (m *Machine) next(now time.Time) *txnlog.Value {
	v := *m.value
	v.PreviousID = v.ProducerID
	v.UpdateMs = max(now.UnixMilli(), v.UpdateMs)
	return &v
}

// become emits the record by which the id becomes v. A step calls it once at most.
func (m *Machine) become(v *txnlog.Value) {
	m.eff.Records = []txnlog.Record{{ID: m.id, Value: v}}
	m.eff.WakeAt = deadline(v)
}

// deadline returns when a transaction under way has to be aborted; zero: never.
func deadline(v *txnlog.Value) time.Time {
	if v == nil || v.State != txnlog.Ongoing {
		return time.Time{}
	}
	return time.UnixMilli(v.StartMs + int64(v.TimeoutMs))
}

// check decides whether a request about the transaction under way, or about the next one, is its
// producer's.
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

// ahead reports whether a producer has its next id already, from the reply to EndTxn, while the
// transaction that has used up the epochs of the last one is being marked.
func (m *Machine) ahead(producerID int64) bool {
	return m.value.State.Prepared() && m.value.NextID >= 0 && producerID == m.value.NextID
}
