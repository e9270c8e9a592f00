// Package election determines the leader and the ISR of a partition from its metadata. It only
// computes. Kafka: PartitionChangeBuilder, KIP-966.
//
// # Clean elections
//
// A replica may lead if its broker is acceptable, neither fenced nor shutting down, and
//
//   - it is in sync, or
//   - the ISR is empty and the replica is eligible: it was in sync when the ISR fell below its
//     minimum. From then on the high watermark did not advance, so the replica has every
//     acknowledged record.
//
// Such an election is clean. Without such a replica the partition has no leader, unless
//
//   - acknowledged records may be given up: the topic allows it, or it was requested;
//   - no replica is in sync or eligible any more, and the last leader has returned. It is the best
//     that there is.
//
// These elections are unclean: the partition is recovering until its ISR grows again.
//
// # Missing replicas
//
// A replica whose directory is missing cannot lead, and loses its places in both sets if another
// replica is in one of them. The last ones stay eligible, and the partition has no leader until one
// of them has its files again.
//
// # Restarts
//
// A broker that was not shut down cleanly may have lost records that it had not synced. If the
// partition is Durable, none of these was acknowledged, and the replica keeps its place in both
// sets. Kafka would remove it, because Kafka does not wait for fsyncs; by that rule, every
// partition would be without a leader after a power failure of all brokers. If the partition is not
// Durable, the replica loses both places. A restarted leader begins a new epoch in any case, since
// followers may have the tail that it has lost.
//
// A partition is Durable from its creation on if its sync policy promises stable storage with the
// acknowledgement. When a topic changes to such a policy, records that were acknowledged before may
// not be on any disk. Its partitions become Durable when their leader has verified that the in-sync
// replicas have synced them (Change.Synced), and when no other replica is eligible, since the
// leader has no evidence about those. A change to another policy ends it at once, before any leader
// applies that policy. So does an unclean election.
package election

import "slices"

// NoLeader is the Leader of a partition without one.
const NoLeader int32 = -1

// A Partition is the metadata of one partition. Its slices are immutable.
type Partition struct {
	Replicas  []int32 // the first one is the preferred leader
	InSync    []int32
	Eligible  []int32 // may lead if no replica is in sync
	LastKnown []int32 // the leader when the last of both sets was lost; at most one
	Missing   []int32 // their directories were missing when their brokers looked last; nil: none

	Leader      int32
	LeaderEpoch int32 // grows with every change of the leader, and when its broker is restarted
	Epoch       int32 // grows with every change
	// Recovering means that the leader may lack acknowledged records.
	Recovering bool
	// Durable means that in-sync and eligible replicas have all acknowledged records on stable
	// storage.
	Durable bool
}

// Rules are the settings that an election depends on, besides the metadata of the partition.
type Rules struct {
	MinInSync  int                     // of the topic; at most the number of replicas counts
	SyncOnAck  bool                    // acknowledged records are on stable storage
	Unclean    bool                    // any leader is better than none
	Acceptable func(broker int32) bool // neither fenced nor shutting down
}

// A Change is an event that affects a partition.
type Change struct {
	// InSync is the ISR that the leader requests, or nil.
	InSync []int32
	// Left has the brokers that were fenced or are shutting down: they are no longer in sync.
	Left []int32
	// Restarted has the brokers that were started again, and Unclean those of them that were not
	// shut down cleanly.
	Restarted, Unclean []int32
	// Lost has the replicas that are lost for good, synced records included: their disks are lost.
	Lost []int32
	// Missing has the replicas whose directories are missing, and may be put back. Found has those
	// that were missing and have their files again.
	Missing, Found []int32
	// Synced means that the leader has verified that all replicas in sync after the change have all
	// acknowledged records on stable storage.
	Synced bool
	// Prefer is the replica to prefer as leader to the present one, if it may lead; 0 means none.
	Prefer int32
}

// An Outcome is the effect of a Change.
type Outcome struct {
	Changed bool // else the partition is unchanged
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
	if len(p.Missing)+len(c.Missing) > 0 { // a replica that the leader proposes was copied again
		next.Missing = without(union(p.Missing, c.Missing), c.Found, c.InSync, c.Lost)
	}
	next.InSync = without(next.InSync, c.Left, lost, next.Missing)
	complete := without(union(p.Eligible, p.InSync), next.InSync, lost)
	next.Eligible = without(complete, next.Missing)
	if len(next.InSync)+len(next.Eligible) == 0 {
		next.Eligible = complete // no other replica has the acknowledged records
	}
	next.LastKnown = without(p.LastKnown, c.Lost)
	leader, clean := next.elect(c, r)
	next.install(p, c, leader, clean)
	if len(next.InSync) >= min(r.MinInSync, len(p.Replicas)) {
		next.Eligible = nil
	}
	switch {
	case !clean: // it is unknown which records of the new leader are synced
		next.Durable = false
	// Replicas that leave in this change count, too: they are in Eligible.
	case r.SyncOnAck && c.Synced && len(next.Eligible) == 0:
		next.Durable = true
	}
	if leader != p.Leader || leader != NoLeader && slices.Contains(c.Restarted, leader) {
		next.LeaderEpoch++
	} else if c.InSync != nil && !slices.Equal(c.InSync, p.InSync) {
		next.Recovering = false // an in-sync replica has all records of its leader
	}
	if p.equal(next) {
		return p, Outcome{}
	}
	next.Epoch++
	return next, Outcome{Changed: true, Unclean: !clean}
}

// elect chooses a leader, NoLeader if there is none; clean is false if records may be lost.
func (p Partition) elect(c Change, r Rules) (leader int32, clean bool) {
	present := func(broker int32) bool { return r.Acceptable(broker) && !slices.Contains(p.Missing, broker) }
	valid := func(broker int32) bool { return p.complete(broker) && present(broker) }
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
		if len(last) == 1 && present(last[0]) {
			return last[0], false
		}
	}
	for _, may := range []func(int32) bool{present, r.Acceptable} {
		if i := slices.IndexFunc(p.Replicas, may); r.Unclean && i >= 0 {
			return p.Replicas[i], false
		}
	}
	return NoLeader, true
}

// complete reports whether the replica has every record that was acknowledged.
func (p Partition) complete(broker int32) bool {
	return slices.Contains(p.InSync, broker) || len(p.InSync) == 0 && slices.Contains(p.Eligible, broker)
}

// install makes leader, elected from p, the leader of the partition. before is the partition
// before the change.
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
		p.Missing = without(p.Missing, p.InSync)
	case !slices.Contains(p.InSync, leader):
		p.InSync = []int32{leader}
		p.Eligible = without(p.Eligible, p.InSync)
	}
	p.LastKnown = nil
}

func (p Partition) equal(q Partition) bool {
	return p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch && p.Recovering == q.Recovering && p.Durable == q.Durable &&
		slices.Equal(p.InSync, q.InSync) && slices.Equal(p.Eligible, q.Eligible) && slices.Equal(p.LastKnown, q.LastKnown) &&
		slices.Equal(p.Missing, q.Missing)
}

// without returns the members of set that are in none of the others, as a set of its own.
func without(set []int32, others ...[]int32) []int32 {
	return slices.DeleteFunc(slices.Clone(set), func(broker int32) bool {
		return slices.ContainsFunc(others, func(o []int32) bool { return slices.Contains(o, broker) })
	})
}

// union returns the members of either set, sorted.
func union(a, b []int32) []int32 {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}
