package image

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/election"
)

// ErrNoReassignment rejects the cancellation of a reassignment that is not in progress. Kafka:
// NO_REASSIGNMENT_IN_PROGRESS.
var ErrNoReassignment = errors.New("replication: no reassignment is under way")

// A Reassignment requests other replicas of a partition, the preferred leader first. No Replicas
// cancel the reassignment in progress.
type Reassignment struct {
	Partition record.TopicPartition
	Replicas  []int32
	// SameFactor rejects another number of replicas (KIP-860).
	SameFactor bool
}

// A layout lists the replicas of a partition, and which of them are being added and removed.
// During a reassignment the partition has all of them: the requested ones first, then the removed
// ones.
type layout struct{ replicas, adding, removing []int32 }

func (p *Partition) layout() layout {
	e := p.extra()
	return layout{p.Replicas, e.adding, e.removing}
}

// moves reports whether a reassignment is in progress.
func (l layout) moves() bool { return len(l.adding)+len(l.removing) > 0 }

func (l layout) equal(o layout) bool {
	return slices.Equal(l.replicas, o.replicas) && slices.Equal(l.adding, o.adding) && slices.Equal(l.removing, o.removing)
}

// Moves reports whether a reassignment of the partition is in progress.
func (p *Partition) Moves() bool { return p.layout().moves() }

// Moving returns the replicas that are added and removed by the reassignment in progress.
func (p *Partition) Moving() (adding, removing []int32) { l := p.layout(); return l.adding, l.removing }

// to returns the layout during a reassignment to target. A replica that an earlier reassignment
// was adding, and that target has as well, is still being added.
func (l layout) to(target []int32) layout {
	next := layout{replicas: slices.Clone(target)}
	for _, id := range l.replicas {
		if !slices.Contains(target, id) {
			next.replicas, next.removing = append(next.replicas, id), append(next.removing, id)
		}
	}
	for _, id := range target {
		if !slices.Contains(l.replicas, id) || slices.Contains(l.adding, id) {
			next.adding = append(next.adding, id)
		}
	}
	return next
}

// cancelled returns the layout without the replicas that are being added. The order is the merged
// one, as in Kafka, so another replica may be the preferred leader.
func (l layout) cancelled() layout { return layout{replicas: less(l.replicas, l.adding)} }

// done returns the layout after the reassignment.
func (l layout) done() layout { return layout{replicas: less(l.replicas, l.removing)} }

// mayEnd reports whether a reassignment can be completed. All added replicas must be in sync, and
// one remaining replica, whose broker is acceptable. If the number of replicas decreases, all
// remaining ones must be in sync. Kafka: PartitionReassignmentReplicas.maybeCompleteReassignment.
func (l layout) mayEnd(inSync []int32, acceptable func(int32) bool) bool {
	in := func(id int32) bool { return slices.Contains(inSync, id) }
	stay := less(l.replicas, l.removing)
	if !l.moves() || !containsAll(inSync, l.adding) || !slices.ContainsFunc(stay, func(id int32) bool { return in(id) && acceptable(id) }) {
		return false
	}
	return len(l.removing) <= len(l.adding) || containsAll(inSync, stay)
}

// less returns the members of a list that another one lacks.
func less(list, other []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return slices.Contains(other, id) })
}

func containsAll(list, members []int32) bool { return len(less(members, list)) == 0 }

// step applies a change to a partition that moves to the layout to, or keeps its layout. If this
// completes the reassignment, the completion is part of the same change.
func (m *Image) step(p *Partition, to layout, c election.Change, r election.Rules) (election.Partition, layout, bool) {
	next, out := replace(p.State(), to, c, r)
	if !out.Unclean && to.mayEnd(next.InSync, r.Acceptable) {
		to = to.done()
		next, _ = replace(next, to, election.Change{}, r) // clean: a remaining replica is in sync
	}
	return next, to, out.Unclean
}

// replace returns a partition after a change, with other replicas. Dropped replicas are in none of
// its sets. A drop begins a new leader epoch, so that the leader ignores the dropped followers. So
// does the growth from one replica, since the leader of a single replica tracks no followers.
func replace(p election.Partition, to layout, c election.Change, r election.Rules) (election.Partition, election.Outcome) {
	dropped := less(p.Replicas, to.replicas)
	if len(dropped) > 0 || len(p.Replicas) == 1 && len(to.replicas) > 1 {
		c.Restarted = slices.Concat(c.Restarted, []int32{p.Leader})
	}
	c.Lost = slices.Concat(c.Lost, dropped)
	p.Replicas = to.replicas
	next, out := election.Apply(p, c, r)
	if len(to.replicas) == 1 { // no other replica has the records, or can confirm them
		next.Durable, next.Recovering, next.Missing = false, out.Unclean, nil
	}
	return next, out
}

// lostDirectory stands for the directory of a replica that is missing. Kafka: DirectoryId.LOST.
var lostDirectory = metarecord.ID{15: 1}

// Missing returns the replicas whose directories were missing when their brokers last checked.
func (p *Partition) Missing() (ids []int32) {
	for i, id := range p.Directories {
		if id == lostDirectory {
			ids = append(ids, p.Replicas[i])
		}
	}
	return ids
}

// directoriesIn returns the directories of a layout's replicas; zero if a replica has none.
func (m *Image) directoriesIn(p *Partition, to layout, missing []int32) []metarecord.ID {
	ids := m.directoriesOf(to.replicas)
	for i, id := range to.replicas {
		if slices.Contains(missing, id) {
			ids[i] = lostDirectory
		} else if had := slices.Index(p.Replicas, id); ids[i] == (metarecord.ID{}) && had >= 0 && p.Directories != nil {
			ids[i] = p.Directories[had]
		}
	}
	return ids
}

// Reassign returns the records that give partitions other replicas, each independently: errs[i] is
// why all[i] is rejected: ErrUnknownTopic, ErrInvalidAssignment, ErrNoReassignment. Added replicas
// begin to follow. The change of the ISR that has all of them completes the reassignment. A
// reassignment that needs no copying is complete at once. Kafka:
// ReplicationControlManager.alterPartitionReassignment.
func (m *Image) Reassign(all []Reassignment, policy Policy) (recs []metarecord.Record, errs []error) {
	errs = make([]error, len(all))
	e := elections{m: m, policy: policy}
	decided := map[record.TopicPartition]bool{}
	for i, a := range all {
		t := m.Topics[a.Partition.Topic]
		if t == nil || a.Partition.Partition < 0 || int(a.Partition.Partition) >= len(t.Partitions) {
			errs[i] = fmt.Errorf("%w: %s-%d", ErrUnknownTopic, a.Partition.Topic, a.Partition.Partition)
			continue
		}
		if decided[a.Partition] {
			errs[i] = fmt.Errorf("%w: %s-%d is named twice", ErrInvalidAssignment, a.Partition.Topic, a.Partition.Partition)
			continue
		}
		rules := e.rulesOf(t)
		to, err := m.target(&t.Partitions[a.Partition.Partition], a, rules)
		if errs[i] = err; err != nil {
			continue
		}
		decided[a.Partition] = true
		if rec := m.decideIn(t, int(a.Partition.Partition), to, election.Change{}, rules); rec != nil {
			recs = append(recs, rec)
		}
	}
	return recs, errs
}

// target returns the requested layout.
func (m *Image) target(p *Partition, a Reassignment, r Rules) (layout, error) {
	has, replicas := p.layout(), a.Replicas
	if replicas == nil {
		if !has.moves() {
			return layout{}, ErrNoReassignment
		}
		to := has.cancelled()
		mayLead := func(id int32) bool { return (r.Unclean || slices.Contains(p.ISR, id)) && m.acceptable(id) }
		// Also if an unclean leader is possible: else there may later be no replica that can lead.
		if !slices.ContainsFunc(to.replicas, mayLead) {
			return layout{}, fmt.Errorf("%w: none of %v, the replicas before the reassignment, can lead", ErrInvalidAssignment, to.replicas)
		}
		return to, nil
	}
	for i, id := range replicas {
		_, known := m.Members[id]
		switch {
		case !known:
			return layout{}, fmt.Errorf("%w: %w: %d", ErrInvalidAssignment, ErrUnknownBroker, id)
		case slices.Contains(replicas[:i], id):
			return layout{}, fmt.Errorf("%w: broker %d is named twice in %v", ErrInvalidAssignment, id, replicas)
		}
	}
	if len(replicas) == 0 {
		return layout{}, fmt.Errorf("%w: no replicas", ErrInvalidAssignment)
	}
	// During a reassignment the factor is the number of replicas after it. Kafka, whose message
	// this is: ReplicationControlManager.validatePartitionReplicationFactorUnchanged.
	if factor := len(has.done().replicas); a.SameFactor && len(replicas) != factor {
		return layout{}, fmt.Errorf("%w: The replication factor is changed from %d to %d", ErrInvalidReplicationFactor, factor, len(replicas))
	}
	return has.to(replicas), nil
}

// An Ongoing is a reassignment in progress.
type Ongoing struct {
	Partition                  record.TopicPartition
	Replicas, Adding, Removing []int32 // Replicas has all of them, the requested ones first
}

// Reassignments returns the reassignments in progress, by topic and number.
func (m *Image) Reassignments() (all []Ongoing) {
	for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
		t := m.Topics[name]
		for i := range t.Partitions {
			if l := t.Partitions[i].layout(); l.moves() {
				at := record.TopicPartition{Topic: name, Partition: int32(i)}
				all = append(all, Ongoing{at, slices.Clone(l.replicas), slices.Clone(l.adding), slices.Clone(l.removing)})
			}
		}
	}
	return all
}
