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

// A TakeOver makes one of the available brokers the controller, by the content of their disks: when
// the cluster opens, and when copies are reopened. A copy that fails meanwhile is treated as
// missing: without it the newest copy, and the epoch, may be different.
type TakeOver struct {
	Places   func() map[int32]Place          // of the brokers whose copies can be reached, by their ids
	LeaveOut func(broker int32, cause error) // removes a broker from Places, and closes its copy
	Failures map[int32]error                 // why brokers were left out
	Asked    []int32                         // brokers of a new cluster; nil if it is not new
	Since    int64                           // later changes than this version go into News
	// AcceptLoss continues with the available copies if they are too few.
	AcceptLoss bool
	// Examine is called when the newest copy is known, before any copy is changed.
	Examine func() error

	Image  *image.Image // of the newest copy
	Epoch  int32        // of its last batch; -1 if it has none
	News   []Change
	Founds bool // the cluster is new: brokers without a directory are its first, as the others are

	m    *Log
	step int32 // by which the controller epoch grows
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

// failAgain is fail when the copies were opened again in vain. What they had failed with is told,
// too: it says why they had to be.
func (m *Log) failAgain(cause, before error) {
	m.failure = fmt.Errorf("%w: %w, after %w", ErrReadOnly, cause, before)
	m.origin = before
}

// closeAll closes all copies, which are to be opened again: what they fail with is on the disks, or
// noted.
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

// openCopies opens the copies that there are.
func (t *TakeOver) openCopies() error {
	m := t.m
	for id, p := range byid.Range(t.Places()) {
		_, err := p.FS.Stat(p.Dir())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var l *Copy
		if err == nil { // else there may be none, and none is made now
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

// choose finds the copy to go by and replays it. It is an error if so many are missing that another
// may know more; no copy has been changed then.
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
		// Its disk fails, or it is damaged. The others may do without it if they are a majority
		// without it: then nothing is committed that only this one has.
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
	case newest.End == 0: // a new cluster, perhaps one that was not completed
		m.sets = controller.Sets{t.Asked}
	case len(m.sets) == 0: // written when there was one broker, and it was not registered
		m.sets = controller.Sets{{newest.Broker}}
	}
	return t.judge(newest, reachable)
}

// judge reports whether the copies that can be reached are enough.
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
	if len(there) == 0 { // a copy of one that was about to join
		there = []int32{newest.Broker}
	}
	m.sets = controller.Sets{there}
	return nil
}

// isUnfounded reports whether copies that are empty, or none, are what is left of a founding that
// was cut short. The first of the brokers asked for is one of every founding, whose first change is
// on its copy before anybody is told of it. It must not be one that was added later: then there are
// others, which have everything.
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
	return len(reachable) == 0 || len(t.Places()) == len(t.Asked) // all directories were made before the first copy
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

// epochGap is by how much the controller's epoch grows if not all can be known that were in use:
// what a missing copy has must not be in the same epochs as what comes now.
const epochGap = 1 << 10

// follow brings the copies of all sets that may be in force up to the newest, and begins the
// controller's epoch on all of them. Only then may it write, and the set of its first change has
// more than half of each of those, whichever it is that is in force. The others join one by one
// afterwards. broken is the broker whose copy failed, 0 if it was none of them.
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
	if newest.EndOffset() > m.end { // a transaction that did not end has done nothing
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
