// Package election decides who leads a partition and who is in sync, by what the metadata says. It
// only computes. Kafka: PartitionChangeBuilder, KIP-966.
//
// # Who may lead
//
// A replica may lead if its broker is acceptable, neither fenced nor leaving, and
//
//   - it is in sync, or
//   - nobody is in sync and it is eligible: it was in sync when the set fell below its minimum.
//     From then on the high watermark did not move, so it has every record that was acknowledged.
//
// That is a clean election. Without such a replica the partition has no leader, unless
//
//   - records that were acknowledged may be given up: the topic allows it, or somebody asks for it;
//   - nobody is in sync or eligible any more, and the last leader is back. It is the best there is.
//
// These are unclean: the partition is recovering until its in-sync set grows again.
//
// # Restarts
//
// A broker that was not stopped in order may have lost what it had not synced. If the partition is
// Durable nothing of that was acknowledged, and the replica keeps its place in both sets: Kafka's
// rule, which is made for fsyncs that nobody waits for, would leave every partition without a
// leader after a power cut of all brokers. Otherwise it loses both places. A leader that was
// started again begins a new epoch in any case, since followers may hold the tail that it has lost.
//
// A partition is Durable from its creation on if its sync policy promises stable storage with the
// acknowledgement. When a topic changes to such a policy, what was acknowledged before may be on no
// disk: its partitions become Durable when their leader has seen that those in sync have synced it
// (Change.Synced), and when nobody else is eligible, for of those it knows nothing. A change to
// another policy ends it at once, before any leader goes by that. So does an unclean election.
package election

import "slices"

// NoLeader is the Leader of a partition without one.
const NoLeader int32 = -1

// A Partition is what the metadata says of one. Its slices are not changed by anyone.
type Partition struct {
	Replicas  []int32 // the first one is preferred as leader
	InSync    []int32
	Eligible  []int32 // may lead if nobody is in sync
	LastKnown []int32 // the leader when the last of both sets was lost; at most one

	Leader      int32
	LeaderEpoch int32 // grows with every change of the leader, and when it begins anew
	Epoch       int32 // grows with every change
	// Recovering: the leader may lack records that were acknowledged.
	Recovering bool
	// Durable: replicas in sync, and eligible ones, have what was acknowledged on stable storage.
	Durable bool
}

// Rules are what decides besides the metadata of the partition.
type Rules struct {
	MinInSync  int                     // of the topic; capped by the number of replicas
	SyncOnAck  bool                    // acknowledged means on stable storage
	Unclean    bool                    // rather any leader than none
	Acceptable func(broker int32) bool // neither fenced nor leaving
}

// A Change is what happened to a partition.
type Change struct {
	// InSync is the set that its leader asks for, or nil.
	InSync []int32
	// Left are brokers that were fenced, or leave: they are no longer in sync.
	Left []int32
	// Restarted are brokers that were started again, and Unclean those of them that were not
	// stopped in order.
	Restarted, Unclean []int32
	// Lost are replicas that nothing is left of, synced or not: their disks are gone.
	Lost []int32
	// Synced: the leader has seen that all who are in sync after the change have what was
	// acknowledged on stable storage.
	Synced bool
	// Prefer this replica as leader to the present one, if it may lead; 0: nobody.
	Prefer int32
}

// An Outcome is what became of a change.
type Outcome struct {
	Changed bool // else the partition is as it was
	Unclean bool // acknowledged records may be lost
}

// Apply returns the partition after the change.
func Apply(p Partition, c Change, r Rules) (Partition, Outcome) {
	next := p
	if c.InSync != nil {
		next.InSync = c.InSync
	}
	next.Durable = r.SyncOnAck && p.Durable
	lost := c.Unclean
	if next.Durable {
		lost = nil
	}
	lost = slices.Concat(lost, c.Lost)
	next.InSync = without(next.InSync, c.Left, lost)
	next.Eligible = without(union(p.Eligible, p.InSync), next.InSync, lost)
	next.LastKnown = without(p.LastKnown, c.Lost)
	leader, clean := next.elect(c, r)
	next.install(p, c, leader, clean)
	if len(next.InSync) >= min(r.MinInSync, len(p.Replicas)) {
		next.Eligible = nil
	}
	switch {
	case !clean: // of what its leader has, nobody knows what is synced
		next.Durable = false
	case r.SyncOnAck && c.Synced && len(next.Eligible) == 0: // also of those who leave by this change
		next.Durable = true
	}
	if leader != p.Leader || leader != NoLeader && slices.Contains(c.Restarted, leader) {
		next.LeaderEpoch++
	} else if c.InSync != nil && !slices.Equal(c.InSync, p.InSync) {
		next.Recovering = false // who is in sync has what its leader has
	}
	if p.equal(next) {
		return p, Outcome{}
	}
	next.Epoch++
	return next, Outcome{Changed: true, Unclean: !clean}
}

// elect chooses a leader, NoLeader if there is none; clean is false if records may be lost by it.
func (p Partition) elect(c Change, r Rules) (leader int32, clean bool) {
	valid := func(broker int32) bool { return p.complete(broker) && r.Acceptable(broker) }
	for _, broker := range []int32{c.Prefer, p.Leader} {
		if valid(broker) {
			return broker, true
		}
	}
	if i := slices.IndexFunc(p.Replicas, valid); i >= 0 {
		return p.Replicas[i], true
	}
	if len(p.InSync) == 0 && len(p.Eligible) == 0 {
		last := p.LastKnown
		if p.Leader != NoLeader {
			last = without([]int32{p.Leader}, c.Lost)
		}
		if len(last) == 1 && r.Acceptable(last[0]) {
			return last[0], false
		}
	}
	if i := slices.IndexFunc(p.Replicas, r.Acceptable); r.Unclean && i >= 0 {
		return p.Replicas[i], false
	}
	return NoLeader, true
}

// complete reports whether the replica has every record that was acknowledged.
func (p Partition) complete(broker int32) bool {
	return slices.Contains(p.InSync, broker) || len(p.InSync) == 0 && slices.Contains(p.Eligible, broker)
}

// install makes leader, who was elected in p, the leader after the one before.
func (p *Partition) install(before Partition, c Change, leader int32, clean bool) {
	p.Leader = leader
	switch {
	case leader == NoLeader:
		if before.Leader != NoLeader && len(p.InSync) == 0 {
			p.LastKnown = without([]int32{before.Leader}, c.Lost)
		}
		return
	case !clean:
		p.InSync, p.Eligible, p.Recovering = []int32{leader}, nil, true
	case !slices.Contains(p.InSync, leader):
		p.InSync = []int32{leader}
		p.Eligible = without(p.Eligible, p.InSync)
	}
	p.LastKnown = nil
}

func (p Partition) equal(q Partition) bool {
	return p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch && p.Recovering == q.Recovering && p.Durable == q.Durable &&
		slices.Equal(p.InSync, q.InSync) && slices.Equal(p.Eligible, q.Eligible) && slices.Equal(p.LastKnown, q.LastKnown)
}

// without returns the members of set that are in none of the others, as a set of its own.
func without(set []int32, others ...[]int32) []int32 {
	return slices.DeleteFunc(slices.Clone(set), func(broker int32) bool {
		return slices.ContainsFunc(others, func(o []int32) bool { return slices.Contains(o, broker) })
	})
}

// union returns what is in either set, sorted.
func union(a, b []int32) []int32 {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}
