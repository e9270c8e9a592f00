package replication

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/controller"
)

// metaLog is the controller's log, __cluster_metadata-0: logs like any other whose records are
// those of package metarecord, one copy on each broker. Every change is one batch, or a transaction
// of several, so it happens wholly or not at all, and is committed when it is durable on all
// copies. The leader epoch of the log is the controller's epoch. It is used by who has
// Cluster.changing, and by open and Close.
type metaLog struct {
	copies  map[int32]*metaCopy // those in sync, by broker: all end at the same offset
	apart   map[int32]*metaCopy // those that are not, not yet, or failed
	found   []int32             // those that were there when they were opened
	sets    controller.Sets     // that may be in force. After the first change: the brokers of copies
	sealed  bool                // a copy can tell that the last set which it names was committed
	joining int32               // the broker whose copy the change under way adds; 0: none
	causes  map[int32]error     // why copies were taken out, or not added, the last time
	leader  int32               // the broker that is controller
	failure error               // set: nobody can tell what copies have, and nothing is written before reopen
	origin  error               // of failure: what had failed before the copies were opened again in vain
	// releadDue says that partitions may have a leader that does not serve, because that could not
	// be written.
	releadDue bool
	builder   record.Builder

	end      int64 // of what open found; behind it a transaction that did not end
	size     int64 // bytes of the log's batches
	snapshot int64 // bytes of the last snapshot
	slack    int64
	part     int64 // maxPartBytes

	patience time.Duration // Config.SessionTimeout
}

// maxMetaBatchBytes bounds a batch, which holds a record of maxMetaRecordBytes behind a part.
const (
	maxMetaBatchBytes  = 16 << 20
	maxMetaRecordBytes = maxMetaBatchBytes - 2*maxPartBytes
)

// openError turns what package log has against a directory into a DirectoryError.
func openError(dir string, err error) error {
	switch {
	case errors.Is(err, log.ErrLocked):
		return directoryError(dir, ErrLocked, err)
	case errors.Is(err, log.ErrNewerFormat):
		return directoryError(dir, ErrNewerFormat, err)
	case errors.Is(err, log.ErrCorrupt), errors.Is(err, log.ErrMissingSegment):
		return directoryError(dir, ErrDamaged, err)
	}
	return fmt.Errorf("open %s: %w", dir, err)
}

// own returns the controller's own copy.
func (m *metaLog) own() *metaCopy { return m.copies[m.leader] }

// epoch returns the controller's epoch.
func (m *metaLog) epoch() int32 {
	epoch, _ := m.own().Epochs().Latest()
	return epoch
}

// beginEpoch makes a new epoch durable on all copies, so many higher than any that began on a copy
// at hand. broken is the broker whose copy failed.
func (m *metaLog) beginEpoch(step int32) (broken int32, err error) {
	epoch := int32(-1)
	for _, copies := range []map[int32]*metaCopy{m.copies, m.apart} {
		for _, l := range copies {
			epoch = max(epoch, l.promised())
		}
	}
	for id, l := range inOrder(m.copies) {
		if err := l.SetLeaderEpoch(epoch + step); err != nil {
			return id, fmt.Errorf("begin controller epoch %d on broker %d: %w", epoch+step, id, err)
		}
	}
	return 0, nil
}

// fail says that nothing is written before the copies were opened again, and returns why.
func (m *metaLog) fail(cause error) error {
	m.origin = cause
	m.failure = fmt.Errorf("%w: %w", ErrMetadataReadOnly, cause)
	return m.failure
}

// named returns the sets that a copy may name, with those that a change leads to.
func (m *metaLog) named(next ...[]int32) [][]int32 { return slices.Concat([][]int32(m.sets), next) }

// committed says that the copies are the set in force.
func (m *metaLog) committed(sealed bool) {
	m.sets, m.sealed = controller.Sets{slices.Sorted(maps.Keys(m.copies))}, sealed
}

// encode returns the batch of a change.
func (m *metaLog) encode(recs []metarecord.Record) ([]byte, error) {
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
// If none did the change is committed; see settle for what becomes of it otherwise.
func (m *metaLog) append(recs []metarecord.Record) (version int64, failed map[int32]error, err error) {
	if m.failure != nil {
		return 0, nil, m.failure
	}
	batch, err := m.encode(recs)
	if err != nil {
		return 0, nil, err
	}
	end := m.own().EndOffset()
	version, failed = m.writeTo(m.copies, batch, end)
	if joining := m.apart[m.joining]; joining != nil {
		if len(failed) == 0 {
			_, failed = m.writeTo(map[int32]*metaCopy{m.joining: joining}, batch, end)
		} else { // the change registers it, so that it has to be fenced as well
			others := errors.Join(listed(failed)...)
			failed[m.joining] = fmt.Errorf("write metadata on broker %d: %w: %w", m.joining, errOthersFailed, others)
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

// errOthersFailed is why a copy was not added that has not failed.
var errOthersFailed = errors.New("others failed before it")

// without returns the brokers whose copies did not fail.
func (m *metaLog) without(failed map[int32]error) (ids []int32) {
	for id := range inOrder(m.copies) {
		if failed[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// drop takes copies that failed out of those that are written to. If the controller's own is among
// them another broker is controller from now on, in a new epoch. See takeOver for named and errors.
func (m *metaLog) drop(failed map[int32]error, named [][]int32) error {
	if !m.detach(failed) {
		return nil
	}
	return m.takeOver(failed, named)
}

// takeOver begins a new epoch on the copies that are left. Those that fail in it are taken
// out, too, and put into failed, as long as the others have half of each of the sets
// named. Each attempt has an epoch of its own, because the copy that failed may have begun the one
// before.
func (m *metaLog) takeOver(failed map[int32]error, named [][]int32) error {
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

// detach takes copies that failed out of those that are written to. If the controller's own is
// among them another broker is controller, which needs an epoch.
func (m *metaLog) detach(failed map[int32]error) (another bool) {
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

// surrender returns the copy of a broker that ends, for its closing; nil if there is none. It is in
// nobody's set any more, but when nothing can be changed anyway.
func (m *metaLog) surrender(id int32) *metaCopy {
	l := m.apart[id]
	if delete(m.apart, id); l == nil && m.failure != nil {
		l = m.copies[id]
	}
	return l
}

// takeBack truncates every copy to end: the batches behind it were not committed. It returns why
// copies still have them. The controller's epoch is forgotten with its first batch: then the
// cluster has not opened, and does not.
func (m *metaLog) takeBack(end int64) (stuck map[int32]error) {
	for id, l := range inOrder(m.copies) {
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

// broken returns why copies take nothing before they are opened again.
func (m *metaLog) broken() map[int32]error {
	broken := map[int32]error{}
	for id, l := range m.copies {
		if err := l.Err(); err != nil {
			broken[id] = fmt.Errorf("metadata on broker %d: %w", id, err)
		}
	}
	return broken
}

// close closes all copies.
func (m *metaLog) close() error {
	var errs []error
	for _, l := range append(listed(m.apart), listed(m.copies)...) {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
