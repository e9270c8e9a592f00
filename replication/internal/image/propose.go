package image

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/topic"
)

// A Proposal is a leader's request for another ISR of a partition. Kafka: AlterPartition.
type Proposal struct {
	Topic     topic.ID
	Partition int32
	Request   election.Request
	// Synced means that all in-sync replicas have all acknowledged records on stable storage.
	Synced bool
}

// AlterPartitions returns the records for the leaders' requests, each independently: errs[i] is why
// all[i] is rejected, by package election, or ErrUnknownTopic. A request for the ISR in force is
// neither rejected nor a change.
func (m *Image) AlterPartitions(all []Proposal, policy Policy) (recs []metarecord.Record, errs []error) {
	type place struct {
		id        topic.ID
		partition int32
	}
	errs = make([]error, len(all))
	e := elections{m: m, policy: policy}
	decided := map[place]bool{}
	for i, a := range all {
		t := m.ByID[a.Topic]
		if t == nil || a.Partition < 0 || int(a.Partition) >= len(t.Partitions) {
			errs[i] = fmt.Errorf("%w: partition %d of topic id %v", ErrUnknownTopic, a.Partition, a.Topic)
			continue
		}
		at := place{a.Topic, a.Partition}
		if decided[at] {
			errs[i] = election.ErrUpdateVersion // changed by another request of this call
			continue
		}
		if errs[i] = election.Check(t.Partitions[a.Partition].State(), a.Request, m.incarnation); errs[i] != nil {
			continue
		}
		c := election.Change{InSync: slices.Clone(a.Request.InSync), Synced: a.Synced}
		if rec := m.decide(t, int(a.Partition), c, e.rulesOf(t)); rec != nil {
			recs, decided[at] = append(recs, rec), true
		}
	}
	return recs, errs
}

// incarnation returns the epoch of a broker; ok is false if the broker cannot be in sync.
func (m *Image) incarnation(id int32) (epoch int64, ok bool) {
	return m.Members[id].Epoch, m.acceptable(id)
}

// Errors of ElectLeaders, besides ErrUnknownTopic.
var (
	// ErrElectionNotNeeded: the preferred leader leads; or, for an unclean election, there is a
	// leader.
	ErrElectionNotNeeded = errors.New("replication: election is not needed")
	// ErrPreferredLeaderNotAvailable: the first of the replicas does not serve, or is not in sync.
	ErrPreferredLeaderNotAvailable = errors.New("replication: preferred leader is not available")
	// ErrEligibleLeadersNotAvailable: no replica's broker serves.
	ErrEligibleLeadersNotAvailable = errors.New("replication: no replica can lead")
)

// ErrNotInSync rejects a leader that is not in sync, or does not serve.
var ErrNotInSync = errors.New("replication: replica is not in sync")

// An ElectionType selects the leader to elect. The values are Kafka's.
type ElectionType int8

// Types of elections.
const (
	PreferredElection ElectionType = 0 // the first of the replicas
	UncleanElection   ElectionType = 1 // any replica, if there is no leader; records may be lost
)

// ElectLeaders returns the records of requested elections, each independently: errs[i] is why there
// is none in tps[i]. Kafka: ReplicationControlManager.electLeader.
func (m *Image) ElectLeaders(kind ElectionType, tps []record.TopicPartition, policy Policy) (recs []metarecord.Record, errs []error) {
	errs = make([]error, len(tps))
	e := elections{m: m, policy: policy}
	decided := map[record.TopicPartition]bool{}
	for i, tp := range tps {
		if decided[tp] {
			continue
		}
		decided[tp] = true
		t := m.Topics[tp.Topic]
		if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
			errs[i] = fmt.Errorf("%w: %s-%d", ErrUnknownTopic, tp.Topic, tp.Partition)
			continue
		}
		p, r, none, c := &t.Partitions[tp.Partition], e.rulesOf(t), ErrPreferredLeaderNotAvailable, election.Change{}
		needed := len(p.Replicas) > 0 && p.Leader != p.Replicas[0]
		if kind == PreferredElection && needed {
			c.Prefer = p.Replicas[0]
		}
		if kind == UncleanElection {
			needed, none, r.Unclean = p.Leader < 0, ErrEligibleLeadersNotAvailable, true
		}
		if !needed {
			errs[i] = fmt.Errorf("%w: %s-%d is led by broker %d", ErrElectionNotNeeded, tp.Topic, tp.Partition, p.Leader)
			continue
		}
		if rec := m.decide(t, int(tp.Partition), c, r); rec != nil {
			recs = append(recs, rec)
		} else {
			errs[i] = fmt.Errorf("%w: %s-%d", none, tp.Topic, tp.Partition)
		}
	}
	return recs, errs
}

// TransferLeader returns the records that make an in-sync replica the leader of its partition, none
// if it leads already. Errors: ErrUnknownTopic, ErrNotInSync.
func (m *Image) TransferLeader(tp record.TopicPartition, to int32, policy Policy) ([]metarecord.Record, error) {
	t := m.Topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
		return nil, fmt.Errorf("%w: %s-%d", ErrUnknownTopic, tp.Topic, tp.Partition)
	}
	p := &t.Partitions[tp.Partition]
	if p.Leader == to && to > 0 {
		return nil, nil
	}
	if !slices.Contains(p.ISR, to) || !m.acceptable(to) {
		return nil, fmt.Errorf("%w: broker %d for %s-%d, but %v are", ErrNotInSync, to, tp.Topic, tp.Partition, p.ISR)
	}
	e := elections{m: m, policy: policy}
	return []metarecord.Record{m.decide(t, int(tp.Partition), election.Change{Prefer: to}, e.rulesOf(t))}, nil
}
