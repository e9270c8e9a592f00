package image

import (
	"maps"
	"math"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/topic"
)

// Rules are the settings of a topic that elections depend on. Where brokers have different
// settings, they are the weakest that a leader may apply: only then are a leader's promises
// certain.
type Rules struct {
	MinInSync int  // Kafka: min.insync.replicas
	SyncOnAck bool // an acknowledged record is on stable storage
	Unclean   bool // Kafka: unclean.leader.election.enable
}

// A Policy returns the rules of a topic, from the configurations of the topic and the brokers. It
// only computes.
type Policy func(m *Image, config map[string]string) Rules

// elections decides on partitions, one topic after the other.
type elections struct {
	m      *Image
	policy Policy
	topic  *Topic
	rules  Rules // of topic
}

// rulesOf returns the rules of a topic.
func (e *elections) rulesOf(t *Topic) Rules {
	if e.topic != t {
		e.topic, e.rules = t, e.policy(e.m, t.Config)
	}
	return e.rules
}

// decide returns the record with the effect of change c and of the serving brokers on a partition;
// nil if there is none.
//
// The only replica of a partition leads whenever its broker serves, even if it has lost records.
// No other replica can have them or lead instead.
func (m *Image) decide(t *Topic, number int, c election.Change, r Rules) *metarecord.PartitionChange {
	return m.decideIn(t, number, t.Partitions[number].layout(), c, r)
}

// decideIn is decide for a partition that gets the layout to, which may be the present one.
func (m *Image) decideIn(t *Topic, number int, to layout, c election.Change, r Rules) *metarecord.PartitionChange {
	p := &t.Partitions[number]
	left, lost := m.gone(p)
	if len(p.Replicas) > 1 {
		c.Left, c.Lost = slices.Concat(c.Left, left), slices.Concat(c.Lost, lost)
	} else if c = (election.Change{InSync: c.InSync, Left: c.Left, Prefer: c.Prefer}); m.EligibleReplicas() {
		c.Left = left
	}
	after, ends, unclean := m.step(p, to, c, election.Rules{MinInSync: r.MinInSync, SyncOnAck: r.SyncOnAck, Unclean: r.Unclean, Acceptable: m.acceptable})
	rec := difference(p.State(), after)
	// also of a partition that is recovering from an earlier one: readers of the log count them
	if unclean {
		rec.Recovery = 1
	}
	if has := p.layout(); !ends.equal(has) {
		rec.Replicas = changed(has.replicas, ends.replicas)
		rec.Adding, rec.Removing = changed(has.adding, ends.adding), changed(has.removing, ends.removing)
	}
	if directories := m.directoriesIn(p, ends, after.Missing); !slices.Equal(directories, p.Directories) {
		rec.Directories = directories
	}
	if isEmpty(rec) {
		return nil
	}
	rec.TopicID, rec.Partition = t.ID, int32(number)
	return rec
}

// isEmpty reports whether a record changes nothing.
func isEmpty(rec *metarecord.PartitionChange) bool {
	sets := rec.ISR == nil && rec.EligibleLeaders == nil && rec.LastKnownLeader == nil && rec.Replicas == nil && rec.Adding == nil && rec.Removing == nil
	return sets && rec.Leader == metarecord.NoChange && rec.Recovery < 0 && rec.Durable == metarecord.Unchanged && rec.Directories == nil
}

// difference returns the record that changes one state of a partition into the other.
func difference(before, after election.Partition) *metarecord.PartitionChange {
	rec := &metarecord.PartitionChange{Leader: metarecord.NoChange, Recovery: -1}
	if after.LeaderEpoch != before.LeaderEpoch {
		rec.Leader = after.Leader
	}
	rec.ISR = changed(before.InSync, after.InSync)
	rec.EligibleLeaders = changed(before.Eligible, after.Eligible)
	rec.LastKnownLeader = changed(before.LastKnown, after.LastKnown)
	if after.Recovering != before.Recovering {
		rec.Recovery = 0
		if after.Recovering {
			rec.Recovery = 1
		}
	}
	if after.Durable != before.Durable {
		rec.Durable = metarecord.Unset
		if after.Durable {
			rec.Durable = metarecord.Set
		}
	}
	return rec
}

// changed returns a set for a record: nil if the set stays the same, and never nil otherwise.
func changed(before, after []int32) []int32 {
	switch {
	case slices.Equal(before, after):
		return nil
	case len(after) == 0:
		return []int32{}
	}
	return after
}

// acceptable reports whether a broker may lead, and be in sync.
func (m *Image) acceptable(id int32) bool {
	b, known := m.Members[id]
	return known && !b.Fenced && !b.Leaving
}

// gone returns the replicas of a partition whose brokers are fenced or leaving, and the lost ones.
// A replica is lost if its broker is no longer a member or has another disk.
func (m *Image) gone(p *Partition) (left, lost []int32) {
	for i, id := range p.Replicas {
		b, known := m.Members[id]
		if !known || b.Fenced || b.Leaving {
			left = append(left, id)
		}
		if !known || p.Directories != nil && !slices.Contains([]metarecord.ID{{}, lostDirectory, b.Directory}, p.Directories[i]) {
			lost = append(lost, id)
		}
	}
	return left, lost
}

// settled reports whether the serving brokers have no effect on a partition. It is a cheap check:
// false means that the partition has to be examined.
func (m *Image) settled(p *Partition) bool {
	for i, id := range p.Replicas {
		b, known := m.Members[id]
		if p.Directories == nil || known && b.Directory != p.Directories[i] {
			return false
		}
	}
	if p.Leader < 0 {
		nobody := len(p.ISR) == 0 || !m.EligibleReplicas()
		return len(p.Replicas) == 1 && nobody && !slices.ContainsFunc(p.Replicas, m.acceptable)
	}
	return p.rare == nil && m.acceptable(p.Leader) && (len(p.Replicas) == 1 || !slices.ContainsFunc(p.ISR, m.refuses))
}

func (m *Image) refuses(id int32) bool { return !m.acceptable(id) }

// Relead returns the records that adapt partitions to the serving brokers: replicas of other
// brokers leave the ISR, and a leader is elected where there is none, or where its broker does not
// serve. The records also have the directories of the replicas, where the metadata has none or has
// a replaced one. There are at most limit records; the last call returns none.
func (m *Image) Relead(limit int, policy Policy) []metarecord.Record {
	return m.elect(limit, policy, func(_ Place, p *Partition) (election.Change, bool) { return election.Change{}, !m.settled(p) })
}

// elect decides on the partitions for which due returns a change and true, and stops when there are
// limit records.
func (m *Image) elect(limit int, policy Policy, due func(Place, *Partition) (election.Change, bool)) (recs []metarecord.Record) {
	e := elections{m: m, policy: policy}
	for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
		t := m.Topics[name]
		for i := range t.Partitions {
			c, look := due(Place{t.ID, int32(i)}, &t.Partitions[i])
			if !look {
				continue
			}
			if rec := m.decide(t, i, c, e.rulesOf(t)); rec != nil {
				if recs = append(recs, rec); len(recs) == limit {
					return recs
				}
			}
		}
	}
	return recs
}

// restart returns the records for partitions with several replicas whose brokers were restarted
// and have registered. Leaders begin a new epoch, since followers may have records that they have
// lost. Settings that were changed while the brokers were down take effect before any replica
// leads.
func (m *Image) restart(up []Arrival, policy Policy) []metarecord.Record {
	var ids []int32
	for _, a := range up {
		ids = append(ids, a.ID)
	}
	return m.elect(math.MaxInt, policy, func(at Place, p *Partition) (election.Change, bool) {
		c := costs(at, up...)
		c.Restarted = ids
		return c, len(p.Replicas) > 1
	})
}

// costs returns which brokers may have lost records of a partition, miss its directory, or have
// found it again, according to the brokers that start.
func costs(at Place, up ...Arrival) (c election.Change) {
	for _, a := range up {
		if !a.Clean {
			c.Unclean = append(c.Unclean, a.ID)
		}
		if slices.Contains(a.Missing, at) {
			c.Missing = append(c.Missing, a.ID)
		}
		if slices.Contains(a.Found, at) {
			c.Found = append(c.Found, a.ID)
		}
		if slices.Contains(a.Offline, at) {
			c.Left = append(c.Left, a.ID)
		}
	}
	return c
}

// Return returns the records to commit before fenced brokers register again, or lead. They remove
// the brokers from the sets of partitions whose acknowledged records they may have lost. There are
// at most limit records; the last call returns none.
func (m *Image) Return(limit int, policy Policy, all ...Arrival) []metarecord.Record {
	return m.elect(limit, policy, func(at Place, p *Partition) (c election.Change, due bool) {
		if len(p.Replicas) == 1 {
			return c, false
		}
		for _, a := range all {
			if slices.Contains(p.Replicas, a.ID) {
				c = costs(at, all...)
				return c, len(c.Unclean)+len(c.Missing)+len(c.Found)+len(c.Left) > 0
			}
		}
		return c, false
	})
}

// GiveWay returns the record that makes a damaged replica a missing one, and the replica on broker
// to the leader. There is none unless both are in sync.
func (m *Image) GiveWay(at Place, id, to int32, policy Policy) []metarecord.Record {
	return m.elect(1, policy, func(place Place, p *Partition) (election.Change, bool) {
		both := slices.Contains(p.ISR, id) && slices.Contains(p.ISR, to) && id != to
		return election.Change{Missing: []int32{id}, Prefer: to}, place == at && both && m.acceptable(to)
	})
}

// reconsider appends the records with the effects of other rules on a topic's partitions. These
// rules result from later, the image after the change, and config, the topic's new configuration.
func (m *Image) reconsider(recs []metarecord.Record, t *Topic, policy Policy, later *Image, config map[string]string) []metarecord.Record {
	several := func(p Partition) bool { return len(p.Replicas) > 1 }
	if !slices.ContainsFunc(t.Partitions, several) {
		return recs
	}
	was, rules := policy(m, t.Config), policy(later, config)
	if rules == was {
		return recs
	}
	for i, p := range t.Partitions {
		if !several(p) {
			continue
		}
		rec := m.decide(t, i, election.Change{}, rules)
		if rec == nil && rules.SyncOnAck != was.SyncOnAck {
			// The record begins another partition epoch. A leader's report of synced records
			// refers to the earlier one.
			rec = &metarecord.PartitionChange{TopicID: t.ID, Partition: int32(i), Leader: metarecord.NoChange, Recovery: -1}
		}
		if rec != nil {
			recs = append(recs, rec)
		}
	}
	return recs
}

// BeginEpoch returns the record with which a partition's leader begins a new epoch.
func BeginEpoch(id topic.ID, partition, leader int32) metarecord.Record {
	return &metarecord.PartitionChange{Partition: partition, TopicID: id, Leader: leader, Recovery: -1}
}

// Prefer returns the records that make other replicas leaders, by partition, if they are in sync.
// There are at most limit records; the last call returns none.
func (m *Image) Prefer(leaders map[Place]int32, limit int, policy Policy) []metarecord.Record {
	return m.elect(limit, policy, func(at Place, p *Partition) (election.Change, bool) {
		to := leaders[at]
		return election.Change{Prefer: to}, to > 0 && to != p.Leader && slices.Contains(p.ISR, to)
	})
}

// Unbalanced reports whether a replica other than the preferred one leads the partition.
func (p *Partition) Unbalanced() bool {
	return len(p.Replicas) > 1 && p.Leader >= 0 && p.Leader != p.Replicas[0]
}

// Balance returns the records that make preferred replicas leaders where others lead, if they are
// in sync. There are at most limit records; the last call returns none. Kafka:
// ReplicationControlManager.maybeBalancePartitionLeaders, which has no percentage of imbalance.
func (m *Image) Balance(limit int, policy Policy) []metarecord.Record {
	return m.elect(limit, policy, func(_ Place, p *Partition) (election.Change, bool) {
		return election.Change{Prefer: p.Replicas[0]}, p.Unbalanced() && slices.Contains(p.ISR, p.Replicas[0])
	})
}
