package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
)

// A takeOver makes one of the brokers at hand controller, by what is on their disks: when the
// cluster opens, and when copies were opened again in place (see Cluster.reopen). A copy that fails
// meanwhile is as good as missing: without it there may be another newest copy, and another epoch.
type takeOver struct {
	m        *metaLog
	nodes    map[int32]*node                 // whose copies can be reached
	leaveOut func(broker int32, cause error) // takes a broker out of nodes, and closes its copy
	failures map[int32]error                 // why brokers were left out
	asked    []int32                         // brokers that a new cluster has; nil: it is not new
	since    int64                           // changes behind this version go into news
	// acceptLoss goes on with what there is if that is too little: Config.AcceptMetadataLoss.
	acceptLoss bool

	img  *image.Image // what the newest copy says
	news []change
	step int32 // by which the controller's epoch grows
}

// run brings the copies of the first set up to the newest and begins an epoch on them. examine is
// called when the newest copy is known, and none has been changed yet.
func (t *takeOver) run(examine func() error) error {
	m := t.m
	for {
		if err := t.choose(); err != nil {
			return errors.Join(append(listed(t.failures), err)...)
		}
		if err := examine(); err != nil {
			return err
		}
		broken, err := t.follow()
		if err == nil || broken == 0 || m.end == 0 {
			return err
		}
		maps.Copy(m.apart, m.copies)
		clear(m.copies)
		t.leaveOut(broken, err)
	}
}

// openCopies opens the copies that there are.
func (t *takeOver) openCopies() error {
	m := t.m
	for id, n := range inOrder(t.nodes) {
		if _, err := n.fs.Stat(n.metaDir()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		l, err := n.openCopy()
		switch {
		case errors.Is(err, ErrNewerFormat), errors.Is(err, ErrLocked):
			return err
		case err != nil:
			t.leaveOut(id, err)
		default:
			m.apart[id] = l
			m.found = append(m.found, id)
		}
	}
	return nil
}

// choose finds the copy to go by and replays it. It is an error if so many are missing that another
// may know more; no copy has been changed then.
func (t *takeOver) choose() error {
	m := t.m
	if len(t.nodes) == 0 {
		return &tooFewError{}
	}
	t.img, t.news, t.step, m.sets = image.New(), nil, 1, nil
	var copies []controller.Copy
	var reachable []int32
	for _, id := range m.found {
		if l := m.apart[id]; l != nil {
			copies = append(copies, l.state(id))
			reachable = append(reachable, id)
		}
	}
	newest := controller.Copy{Broker: slices.Min(slices.Collect(maps.Keys(t.nodes)))}
	if len(copies) > 0 {
		newest = controller.Newest(copies)
		var err error
		t.news, err = m.replay(m.apart[newest.Broker], t.nodes[newest.Broker].metaDir(), t.img, t.since)
		if errors.Is(err, ErrNewerFormat) {
			return err
		}
		// Its disk fails, or it is damaged. The others may do without it if they are a majority
		// without it: then nothing is committed that only this one has.
		if err != nil {
			t.leaveOut(newest.Broker, err)
			return t.choose()
		}
	}
	m.leader, m.sealed = newest.Broker, len(m.sets) <= 1
	switch m.sets = m.sets.Known(newest, copies); {
	case newest.End == 0: // a new cluster, perhaps one that was not completed
		m.sets = controller.Sets{t.asked}
	case len(m.sets) == 0: // written when there was one broker, and it was not registered
		m.sets = controller.Sets{{newest.Broker}}
	}
	return t.judge(newest, reachable)
}

// judge reports whether the copies that can be reached are enough.
func (t *takeOver) judge(newest controller.Copy, reachable []int32) error {
	m := t.m
	switch {
	case newest.End == 0 && len(t.failures) > 0:
		return fmt.Errorf("the cluster is new: all of its brokers %v are needed", t.asked)
	case newest.End == 0 && (len(reachable) == 0 || len(t.nodes) == len(t.asked)):
		return nil // all directories of a new cluster are made before the first copy
	case newest.End > 0 && controller.Enough(reachable, m.sets...):
		return nil
	case !t.acceptLoss:
		return &tooFewError{m.sets}
	}
	t.step, m.sealed = epochGap, false
	there := slices.DeleteFunc(m.sets.All(), func(id int32) bool { return !slices.Contains(reachable, id) })
	if len(there) == 0 { // a copy of one that was about to join
		there = []int32{newest.Broker}
	}
	m.sets = controller.Sets{there}
	return nil
}

// A tooFewError says which copies of the metadata are needed.
type tooFewError struct{ sets controller.Sets }

func (e *tooFewError) Error() string {
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
func (t *takeOver) follow() (broken int32, err error) {
	m := t.m
	for _, n := range inOrder(t.nodes) {
		if m.apart[n.id] == nil {
			l, err := n.openCopy()
			if err != nil {
				return n.id, err
			}
			m.apart[n.id] = l
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
		if err := m.copies[id].follow(newest); err != nil {
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
