package metalog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
)

// A TakeOver makes one of the available brokers the controller, from the content of their disks.
// It runs when the cluster opens, and when copies are reopened. A copy that fails during it is
// treated as missing: without it the newest copy, and the epoch, may be different.
type TakeOver struct {
	Places   func() map[int32]Place          // of the brokers whose copies can be reached, by their ids
	LeaveOut func(broker int32, cause error) // removes a broker from Places, and closes its copy
	Failures map[int32]error                 // why brokers were left out, by broker
	Asked    []int32                         // brokers of a new cluster; nil if it is not new
	Since    int64                           // changes after this version are returned in News
	// AcceptLoss continues with the available copies if they are too few.
	AcceptLoss bool
	// Examine is called when the newest copy is known, before any copy is changed.
	Examine func() error

	Image *image.Image // of the newest copy
	Epoch int32        // of its last batch; -1 if it has none
	News  []Change
	// the cluster is new: brokers without a directory are founders, too
	Founds bool

	m    *Log
	step int32 // added to the newest epoch for the controller's epoch
}

// Open opens the existing copies and takes over. It returns *TooFewError if missing copies may have
// later changes.
func (m *Log) Open(t *TakeOver) error {
	t.m = m
	if err := t.openCopies(); err != nil {
		return err
	}
	return t.run()
}

// Reopen makes a failed log writable again: it closes all copies, opens them as Open does, and
// calls begin, which makes the first change. The newest copy must not end below the version least,
// which was committed. After an error the log is still not writable.
func (m *Log) Reopen(t *TakeOver, least int64, begin func() error) error {
	before := m.origin
	m.closeAll()
	t.Examine = func() error {
		if m.end < least {
			return fmt.Errorf("the copies of the metadata end at offset %d, but records below %d were committed", m.end, least)
		}
		return nil
	}
	err := m.Open(t)
	if err == nil {
		m.failure = nil
		err = begin()
	}
	if err != nil {
		m.failAgain(err, before)
		return m.failure
	}
	return nil
}

// failAgain is fail after copies were reopened without success. The error includes the earlier
// failure, the reason why they were reopened.
func (m *Log) failAgain(cause, before error) {
	m.failure = fmt.Errorf("%w: %w, after %w", ErrReadOnly, cause, before)
	m.origin = before
}

// closeAll closes all copies before they are reopened. Their errors do not matter: the disks will
// show them again, or they are noted.
func (m *Log) closeAll() {
	_ = m.Close()
	clear(m.copies)
	clear(m.apart)
	m.found, m.joining = nil, 0
}

// GiveUp closes the copy of a broker that fails while copies are being reopened.
func (m *Log) GiveUp(broker int32, cause error) {
	m.causes[broker] = cause
	if l := m.apart[broker]; l != nil {
		_ = l.Close() // its disk fails
	}
	delete(m.apart, broker)
}

// run brings the copies of the first set up to the newest and begins an epoch on them.
func (t *TakeOver) run() error {
	m := t.m
	for {
		if err := t.choose(); err != nil {
			return errors.Join(append(byid.Values(t.Failures), err)...)
		}
		if err := t.Examine(); err != nil {
			return err
		}
		broken, err := t.follow()
		if err == nil || broken == 0 || m.end == 0 {
			return err
		}
		maps.Copy(m.apart, m.copies)
		clear(m.copies)
		t.LeaveOut(broken, err)
	}
}

// openCopies opens the existing copies.
func (t *TakeOver) openCopies() error {
	m := t.m
	for id, p := range byid.Range(t.Places()) {
		_, err := p.FS.Stat(p.Dir())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var l *Copy
		if err == nil { // else it is unknown whether there is one, and none may be created
			l, err = p.Open()
		}
		switch {
		case errors.Is(err, ErrNewerFormat), errors.Is(err, ErrLocked):
			return err
		case err != nil:
			t.LeaveOut(id, err)
		default:
			m.apart[id] = l
			m.found = append(m.found, id)
		}
	}
	return nil
}

// choose selects the newest copy and replays it. It returns an error if so many copies are missing
// that one of them may have later changes. It changes no copy.
func (t *TakeOver) choose() error {
	m := t.m
	if len(t.Places()) == 0 {
		return &TooFewError{failures: t.Failures}
	}
	t.Image, t.News, t.step, m.sets = image.New(), nil, 1, nil
	var copies []controller.Copy
	var reachable []int32
	for _, id := range m.found {
		if l := m.apart[id]; l != nil {
			copies = append(copies, l.state(id))
			reachable = append(reachable, id)
		}
	}
	newest := controller.Copy{Broker: slices.Min(slices.Collect(maps.Keys(t.Places())))}
	if len(copies) > 0 {
		newest = controller.Newest(copies)
		var err error
		t.News, err = m.replay(m.apart[newest.Broker], t.Image, t.Since)
		if errors.Is(err, ErrNewerFormat) {
			return err
		}
		// The disk fails, or the copy is damaged. If the others are a majority without it, they
		// can continue: every committed change is on one of them.
		if err != nil {
			t.LeaveOut(newest.Broker, err)
			return t.choose()
		}
	}
	if t.Epoch = newest.Epoch; len(copies) == 0 {
		t.Epoch = -1
	}
	m.leader, m.sealed = newest.Broker, len(m.sets) <= 1
	switch m.sets = m.sets.Known(newest, copies); {
	case newest.End == 0: // a new cluster, or one whose creation was interrupted
		m.sets = controller.Sets{t.Asked}
	case len(m.sets) == 0: // written while there was one broker, which was not registered
		m.sets = controller.Sets{{newest.Broker}}
	}
	return t.judge(newest, reachable)
}

// judge returns an error unless the reachable copies are enough. With AcceptLoss any copies are
// enough.
func (t *TakeOver) judge(newest controller.Copy, reachable []int32) error {
	m := t.m
	t.Founds = false
	switch {
	case newest.End == 0 && len(t.Failures) > 0:
		return fmt.Errorf("the cluster is new: all of its brokers %v are needed", t.Asked)
	case newest.End == 0 && t.isUnfounded(reachable):
		t.Founds = true
		return nil
	case newest.End > 0 && controller.Enough(reachable, m.sets...):
		return nil
	case !t.AcceptLoss:
		return &TooFewError{m.sets, reachable, t.Failures}
	}
	t.step, m.sealed = epochGap, false
	there := slices.DeleteFunc(m.sets.All(), func(id int32) bool { return !slices.Contains(reachable, id) })
	if len(there) == 0 { // the copy of a broker that was joining
		there = []int32{newest.Broker}
	}
	m.sets = controller.Sets{there}
	return nil
}

// isUnfounded reports whether the empty or missing copies are left from an interrupted creation of
// the cluster. The first of the requested brokers takes part in every creation, and its copy has
// the first change before the cluster is announced. If that broker was added later, other brokers
// have the content.
func (t *TakeOver) isUnfounded(reachable []int32) bool {
	if len(t.Asked) == 0 {
		return false
	}
	first, there := t.Places()[t.Asked[0]]
	switch {
	case !there || first.Origin == Added:
		return false
	case first.Origin == Founder:
		return true
	}
	// All directories are made before the first copy.
	return len(reachable) == 0 || len(t.Places()) == len(t.Asked)
}

// A TooFewError reports which copies of the metadata are needed.
type TooFewError struct {
	sets      controller.Sets
	reachable []int32
	failures  map[int32]error
}

// AllFailed reports whether each needed broker that cannot be reached has a directory: its disk
// fails, or its copy is damaged. If no copy could be read, the needed set is unknown. Then every
// broker that had to be left out counts as needed.
func (e *TooFewError) AllFailed() bool {
	for _, id := range e.sets.All() {
		if e.failures[id] == nil && !slices.Contains(e.reachable, id) {
			return false
		}
	}
	return len(e.failures) > 0
}

func (e *TooFewError) Error() string {
	kept := make([]string, len(e.sets))
	for i, set := range e.sets {
		kept[i] = fmt.Sprint(set)
	}
	if len(kept) == 0 {
		return "no broker has a copy of the metadata that can be reached"
	}
	return fmt.Sprintf("the metadata is kept by brokers %s, and more than half of them are needed", strings.Join(kept, " or "))
}

// epochGap is the step of the controller's epoch if not all used epochs can be known. The batches
// of a missing copy and later batches must not have the same epochs.
const epochGap = 1 << 10

// follow brings the copies of all sets that may be in force up to the newest, and begins the
// controller's epoch on all of them. Only then may the controller write. The set of its first
// change has more than half of each of these sets, so it does not matter which one is in force.
// The other copies join one by one afterwards. broken is the broker whose copy failed, 0 if none
// did.
func (t *TakeOver) follow() (broken int32, err error) {
	m := t.m
	for id, p := range byid.Range(t.Places()) {
		if m.apart[id] == nil {
			l, err := p.Open()
			if err != nil {
				return id, err
			}
			m.apart[id] = l
		}
	}
	newest := m.apart[m.leader]
	if newest.EndOffset() > m.end { // a transaction without an end has no effect
		if err := newest.cut(m.end); err != nil {
			return m.leader, err
		}
	}
	for _, id := range m.sets.All() {
		if l := m.apart[id]; l != nil {
			m.copies[id] = l
			delete(m.apart, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.copies)) {
		if m.copies[id] == newest {
			continue
		}
		if err := m.copies[id].Follow(newest); err != nil {
			if broken = id; errors.As(err, new(*sourceError)) {
				broken = m.leader
			}
			return broken, fmt.Errorf("copy metadata to broker %d: %w", id, err)
		}
	}
	if m.copies[m.leader] == nil {
		m.leader = slices.Min(slices.Collect(maps.Keys(m.copies)))
	}
	return m.beginEpoch(t.step)
}
