package progress

import (
	"slices"
	"time"
)

// A Proposal is an in-sync set that the leader asks the controller for.
type Proposal struct {
	Epoch  int32   // of the partition, as the leader knows it
	InSync []int32 // sorted by broker
	// Incarnations are the broker epochs of InSync as the leader knows them, -1 for its own: a
	// broker that has been started again meanwhile has not what the leader believes.
	Incarnations []int64
	// Synced: all of InSync have on stable storage what was acknowledged, and the controller does
	// not know it (Set.Unsynced).
	Synced bool
}

// After a refusal nothing is asked for during a pause, which doubles with every further one.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// Expand returns the set with those who may join, if anybody may and no other change is asked for.
// Who joins has every record that was acknowledged, and the leader's epoch from its start.
func (l *Leader) Expand() (Proposal, bool) {
	return l.propose(func(f *follower) bool {
		in := slices.Contains(l.set.InSync, f.broker)
		safe := l.safe(f.position)
		return in || f.alive && safe >= l.hw && safe >= l.start
	})
}

// Shrink returns the set of those in sync that are caught up, unless that is all of them or another
// change is asked for.
func (l *Leader) Shrink(now time.Duration) (Proposal, bool) {
	return l.propose(func(f *follower) bool {
		return slices.Contains(l.set.InSync, f.broker) && l.isCaughtUp(f, now)
	})
}

// Prove returns the committed set, to tell the controller that all of it have on stable storage
// what was acknowledged, unless it knows, or another change is asked for.
func (l *Leader) Prove() (Proposal, bool) {
	if !l.set.Unsynced {
		return Proposal{}, false
	}
	return l.propose(func(f *follower) bool { return slices.Contains(l.set.InSync, f.broker) })
}

// propose asks for the set of the followers that belong and the leader, if that is another one or
// says something new of it.
func (l *Leader) propose(belongs func(f *follower) bool) (Proposal, bool) {
	if l.proposed != nil || l.now < l.askAt {
		return Proposal{}, false
	}
	p := Proposal{Epoch: l.set.Epoch, InSync: []int32{l.self}}
	for i := range l.followers {
		if f := &l.followers[i]; belongs(f) {
			p.InSync = append(p.InSync, f.broker)
		}
	}
	slices.Sort(p.InSync)
	p.Synced = l.set.Unsynced && l.synced(p.InSync)
	if same(p.InSync, l.set.InSync) && !p.Synced {
		return Proposal{}, false
	}
	for _, broker := range p.InSync {
		incarnation := int64(-1)
		if f := l.follower(broker); f != nil {
			incarnation = f.incarnation
		}
		p.Incarnations = append(p.Incarnations, incarnation)
	}
	l.proposed = p.InSync
	return p, true
}

// IsAsked reports whether p is asked for, and not answered yet.
func (l *Leader) IsAsked(p Proposal) bool {
	return l.proposed != nil && l.set.Epoch == p.Epoch && slices.Equal(l.proposed, p.InSync)
}

// Asked reports whether a change is asked for, and not answered yet.
func (l *Leader) Asked() bool { return l.proposed != nil }

func same(sorted, set []int32) bool {
	return len(sorted) == len(set) && !slices.ContainsFunc(sorted, func(b int32) bool { return !slices.Contains(set, b) })
}

// Committed takes over what the controller has committed; an older set than the known one is
// ignored. Whatever was asked for is answered by it: the question was about an earlier epoch of the
// partition.
func (l *Leader) Committed(set Set, now time.Duration) {
	if set.Epoch <= l.set.Epoch {
		return
	}
	l.adopt(set, now)
	l.advance(now)
}

// Refused says that the controller has not made, and will not make, what was asked for last. Who
// cannot be sure asks for the same once more: the epoch of the partition, which goes with it, lets
// the controller commit it once. Nothing is asked for during the pause that is returned, unless
// another set is committed meanwhile.
func (l *Leader) Refused(now time.Duration) (pause time.Duration) {
	l.proposed = nil
	l.advance(now)
	pause = min(firstPause<<min(l.refusals, 10), maxPause)
	l.refusals++
	l.askAt = l.now + pause
	return pause
}
