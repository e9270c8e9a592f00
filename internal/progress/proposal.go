package progress

import (
	"slices"
	"time"
)

// A Proposal is an in-sync set that the leader requests from the controller.
type Proposal struct {
	Epoch  int32   // of the partition, in the leader's view
	InSync []int32 // sorted by broker
	// Incarnations are the broker epochs of InSync in the leader's view, -1 for the leader itself.
	// A broker that has restarted since may lack records.
	Incarnations []int64
	// Synced is set if all members of InSync have the acknowledged records on stable storage, and
	// the controller has no confirmation of it yet (Set.Unsynced).
	Synced bool
}

// After a refusal no proposal is made for a pause, which doubles with each further one.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// Expand returns the in-sync set with the replicas that may join it; ok is false if there are none,
// or a proposal is pending. A replica may join if it has every acknowledged record, and the log up
// to the start of the leader epoch.
func (l *Leader) Expand() (Proposal, bool) {
	return l.propose(func(f *follower) bool {
		in := slices.Contains(l.set.InSync, f.broker)
		safe := l.safe(f.position)
		return in || f.alive && safe >= l.hw && safe >= l.start
	})
}

// Shrink returns the caught-up members of the in-sync set; ok is false if all are, or a proposal is
// pending.
func (l *Leader) Shrink(now time.Duration) (Proposal, bool) {
	return l.propose(func(f *follower) bool {
		return slices.Contains(l.set.InSync, f.broker) && l.isCaughtUp(f, now)
	})
}

// Prove returns the committed set to confirm that its members have the acknowledged records on
// stable storage; ok is false if the controller knows, or a proposal is pending.
func (l *Leader) Prove() (Proposal, bool) {
	if !l.set.Unsynced {
		return Proposal{}, false
	}
	return l.propose(func(f *follower) bool { return slices.Contains(l.set.InSync, f.broker) })
}

// propose makes a set of the leader and the followers for which belongs returns true. It returns
// false if neither the set nor Synced is new.
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

// IsAsked reports whether p is pending.
func (l *Leader) IsAsked(p Proposal) bool {
	return l.proposed != nil && l.set.Epoch == p.Epoch && slices.Equal(l.proposed, p.InSync)
}

// Asked reports whether a proposal is pending.
func (l *Leader) Asked() bool { return l.proposed != nil }

func same(sorted, set []int32) bool {
	return len(sorted) == len(set) && !slices.ContainsFunc(sorted, func(b int32) bool { return !slices.Contains(set, b) })
}

// Committed takes over the committed state. An older one than the present is ignored. A pending
// proposal ends with it: it was for an earlier epoch of the partition.
func (l *Leader) Committed(set Set, now time.Duration) {
	if set.Epoch <= l.set.Epoch {
		return
	}
	l.adopt(set, now)
	l.advance(now)
}

// Refused ends a proposal that the controller has not committed and will not commit. If that is
// uncertain, the caller sends the same proposal again: the partition's epoch in it lets the
// controller commit it once. No proposal is made for the returned pause, unless another set is
// committed meanwhile.
func (l *Leader) Refused(now time.Duration) (pause time.Duration) {
	l.proposed = nil
	l.advance(now)
	pause = min(firstPause<<min(l.refusals, 10), maxPause)
	l.refusals++
	l.askAt = l.now + pause
	return pause
}
