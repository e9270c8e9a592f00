package metalog

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/controller"
)

// Config configures a Log.
type Config struct {
	// Slack is the minimum number of bytes by which the log may outgrow its last snapshot; the
	// limit is three times the snapshot if that is more. A negative value makes a snapshot due
	// after every change.
	Slack    int64
	Part     int64         // approximate bytes of a change in one batch; MaxPartBytes except in tests
	Patience time.Duration // how long to wait for a copy that is not needed for a majority

	// Elected is called when another broker has become controller, or the same broker in a new
	// epoch.
	Elected func()
	// Fenced is called when a change is committed that removes a broker from the set.
	Fenced func(broker int32, cause error)
}

// A Log is the controller's log on all its copies. It must not be used concurrently.
type Log struct {
	cfg     Config
	copies  map[int32]*Copy // the copies in sync, by broker: all end at the same offset
	apart   map[int32]*Copy // the other copies: not in sync yet, or failed
	found   []int32         // brokers whose copies existed when they were opened
	sets    controller.Sets // may be in force. After the first change: the brokers of copies
	sealed  bool            // a copy shows that the last set that it names was committed
	joining int32           // the broker whose copy the change in progress adds; 0 means none
	causes  map[int32]error // why copies were last removed, or not added, by broker
	leader  int32           // the broker that is controller
	failure error           // set if the content of the copies is unknown: no writes before Reopen
	origin  error           // of failure: the first error, before the copies were reopened without success
	builder record.Builder

	end      int64 // of the committed log that Open found, without a transaction that did not end
	size     int64 // bytes of the log's batches
	snapshot int64 // bytes of the last snapshot
}

// MaxBatchBytes is the maximum size of a batch, which has a record of MaxRecordBytes after a part.
const (
	MaxBatchBytes  = 16 << 20
	MaxRecordBytes = MaxBatchBytes - 2*MaxPartBytes
)

// New returns a log without copies: see Open.
func New(cfg Config) *Log {
	return &Log{cfg: cfg, copies: map[int32]*Copy{}, apart: map[int32]*Copy{}, causes: map[int32]error{}}
}

// Own returns the controller's own copy.
func (m *Log) Own() *Copy { return m.copies[m.leader] }

// Controller returns the broker that is the controller.
func (m *Log) Controller() int32 { return m.leader }

// Epoch returns the controller epoch.
func (m *Log) Epoch() int32 {
	epoch, _ := m.Own().Epochs().Latest()
	return epoch
}

// Failure returns the reason why nothing can be written before Reopen, or nil. It matches
// ErrReadOnly.
func (m *Log) Failure() error { return m.failure }

// IsSealed reports whether a copy shows that the last set that it names was committed.
func (m *Log) IsSealed() bool { return m.sealed }

// IsNew reports whether Open found no committed change.
func (m *Log) IsNew() bool { return m.end == 0 }

// Has reports whether a broker's copy is in the set.
func (m *Log) Has(broker int32) bool { return m.copies[broker] != nil }

// Copies iterates over the copies in the set, by their brokers.
func (m *Log) Copies() iter.Seq2[int32, *Copy] { return byid.Range(m.copies) }

// Set returns the brokers whose copies are in sync, ascending.
func (m *Log) Set() []int32 { return m.without(nil) }

// Apart returns the copy of a broker that is not in the set, or nil if there is none.
func (m *Log) Apart(broker int32) *Copy { return m.apart[broker] }

// Bring passes the copy of a broker that is to join.
func (m *Log) Bring(broker int32, l *Copy) { m.apart[broker] = l }

// CanSpare reports whether the log can continue without the copies of the given brokers.
func (m *Log) CanSpare(out map[int32]error) bool {
	return controller.MayBecome(m.without(out), m.named()...)
}

// beginEpoch begins a new epoch durably on all copies, step above the newest one of all available
// copies. broken is the broker whose copy failed.
func (m *Log) beginEpoch(step int32) (broken int32, err error) {
	epoch := int32(-1)
	for _, copies := range []map[int32]*Copy{m.copies, m.apart} {
		for _, l := range copies {
			epoch = max(epoch, l.Promised())
		}
	}
	for id, l := range byid.Range(m.copies) {
		if err := l.beginEpoch(epoch + step); err != nil {
			return id, fmt.Errorf("begin controller epoch %d on broker %d: %w", epoch+step, id, err)
		}
	}
	return 0, nil
}

// Secure puts the changes of a new cluster, and the directories that lead to them, on stable
// storage. Until it returns nil, nothing has happened; after an error the outcome is unknown.
func (m *Log) Secure() error {
	if m.failure != nil {
		return m.failure
	}
	for id, l := range byid.Range(m.copies) {
		if err := l.SyncRecords(); err != nil {
			return m.fail(fmt.Errorf("write metadata on broker %d: %w", id, err))
		}
	}
	return nil
}

// Settle makes the copies of a new cluster, after Secure, ordinary copies: each later change is on
// stable storage when it is committed. After an error the copies must be reopened.
func (m *Log) Settle() error {
	for id, l := range byid.Range(m.copies) {
		if err := l.settle(); err != nil {
			return m.fail(fmt.Errorf("write metadata on broker %d: %w", id, err))
		}
	}
	return nil
}

// fail makes the log unwritable until the copies are reopened, and returns the error for callers.
func (m *Log) fail(cause error) error {
	m.origin = cause
	m.failure = fmt.Errorf("%w: %w", ErrReadOnly, cause)
	return m.failure
}

// named returns the sets that a copy may name, with next, the sets that a change leads to.
func (m *Log) named(next ...[]int32) [][]int32 { return slices.Concat([][]int32(m.sets), next) }

// committed makes the brokers of copies the set in force.
func (m *Log) committed(sealed bool) {
	m.sets, m.sealed = controller.Sets{slices.Sorted(maps.Keys(m.copies))}, sealed
}

// encode returns the batch of a change.
func (m *Log) encode(recs []metarecord.Record) ([]byte, error) {
	now := time.Now().UnixMilli()
	m.builder.Reset(0)
	var value []byte
	for _, rec := range recs {
		value = metarecord.Append(value[:0], rec)
		m.builder.AppendKV(now, nil, value, nil)
	}
	batch, err := m.builder.Build(record.None)
	if err != nil {
		return nil, fmt.Errorf("write metadata: %w", err)
	}
	return batch, nil
}

// append writes one change to all copies at the same time, and waits until each has it on stable
// storage or has failed. It returns the metadata version after the change, and why copies failed.
// If none did, the change is committed; otherwise see Commit.
func (m *Log) append(recs []metarecord.Record) (version int64, failed map[int32]error, err error) {
	if m.failure != nil {
		return 0, nil, m.failure
	}
	batch, err := m.encode(recs)
	if err != nil {
		return 0, nil, err
	}
	end := m.Own().EndOffset()
	version, failed = m.writeTo(m.copies, batch, end)
	if joining := m.apart[m.joining]; joining != nil {
		if len(failed) == 0 {
			_, failed = m.writeTo(map[int32]*Copy{m.joining: joining}, batch, end)
		} else { // the change registers the joining copy, so it has to be fenced as well
			others := errors.Join(byid.Values(failed)...)
			failed[m.joining] = fmt.Errorf("write metadata on broker %d: %w: %w", m.joining, ErrOthersFailed, others)
		}
		if failed[m.joining] == nil {
			m.copies[m.joining] = joining
			delete(m.apart, m.joining)
		}
	}
	if version > 0 {
		m.size += int64(len(batch))
	}
	return version, failed, nil
}

// without returns the brokers whose copies did not fail.
func (m *Log) without(failed map[int32]error) (ids []int32) {
	for id := range byid.Range(m.copies) {
		if failed[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// drop removes failed copies from the set. If the controller's own is among them, another broker
// is controller from now on, in a new epoch. See elect for named and errors.
func (m *Log) drop(failed map[int32]error, named [][]int32) error {
	if !m.detach(failed) {
		return nil
	}
	return m.elect(failed, named)
}

// elect begins a new epoch on the remaining copies. A copy that fails in it is removed, too, and
// put into failed, as long as the others have at least half of each of the named sets. Each
// attempt has an epoch of its own, because the failed copy may have begun the previous one.
func (m *Log) elect(failed map[int32]error, named [][]int32) error {
	for step := int32(1); ; step++ {
		broken, err := m.beginEpoch(step)
		if err == nil {
			return nil
		}
		gone := map[int32]error{broken: err}
		if !controller.MayBecome(m.without(gone), named...) {
			return err
		}
		failed[broken] = err
		m.detach(gone)
	}
}

// detach moves failed copies from the set to apart. If the controller's own is among them, another
// broker is controller, which needs a new epoch.
func (m *Log) detach(failed map[int32]error) (another bool) {
	for id := range failed {
		if l := m.copies[id]; l != nil {
			m.apart[id] = l
			delete(m.copies, id)
		}
	}
	if m.copies[m.leader] != nil {
		return false
	}
	m.leader = slices.Min(slices.Collect(maps.Keys(m.copies)))
	return true
}

// Surrender returns the copy of a broker that is stopping, so that the caller can close it; nil if
// there is none. The copy is no longer in the set, except when no change can be made anyway.
func (m *Log) Surrender(id int32) *Copy {
	l := m.apart[id]
	if delete(m.apart, id); l == nil && m.failure != nil {
		l = m.copies[id]
	}
	return l
}

// takeBack truncates every copy to end, since the batches after it were not committed. It returns
// why copies still have them. Truncation of its first batch also removes the controller's epoch:
// then the cluster has not opened, and will not.
func (m *Log) takeBack(end int64) (stuck map[int32]error) {
	for id, l := range byid.Range(m.copies) {
		if l.EndOffset() <= end {
			continue
		}
		if err := l.cut(end); err != nil {
			if stuck == nil {
				stuck = map[int32]error{}
			}
			stuck[id] = fmt.Errorf("take metadata back on broker %d: %w", id, err)
		}
	}
	return stuck
}

// broken returns why copies accept no write before they are reopened, by broker.
func (m *Log) broken() map[int32]error {
	broken := map[int32]error{}
	for id, l := range m.copies {
		if err := l.Err(); err != nil {
			broken[id] = fmt.Errorf("metadata on broker %d: %w", id, err)
		}
	}
	return broken
}

// Close closes all copies.
func (m *Log) Close() error {
	var errs []error
	for _, l := range append(byid.Values(m.apart), byid.Values(m.copies)...) {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Join adds to the set a broker's copy that was passed to Bring. register makes the change that
// records it. It is written to the copies of the set first. Otherwise new copies that name a larger
// set could be a majority of it without any copy that has the committed changes.
func (m *Log) Join(broker int32, register func() error) error {
	l := m.apart[broker]
	if l == nil { // it failed when it was reopened
		return m.Keeps(broker)
	}
	if err := l.Follow(m.Own()); err != nil {
		return fmt.Errorf("copy metadata to broker %d: %w", broker, err)
	}
	if err := l.SetLeaderEpoch(m.Epoch()); err != nil {
		return fmt.Errorf("copy metadata to broker %d: %w", broker, err)
	}
	m.joining = broker
	err := register()
	m.joining = 0
	if err == nil {
		err = m.Keeps(broker)
	}
	return err
}

// Keeps returns nil if a broker's copy is in the set, else the reason why it is not any more.
func (m *Log) Keeps(broker int32) error {
	if m.copies[broker] == nil {
		return fmt.Errorf("broker %d cannot keep the metadata: %w", broker, m.causes[broker])
	}
	return nil
}
