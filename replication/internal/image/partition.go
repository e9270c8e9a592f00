package image

import (
	"fmt"
	"math"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/topic"
)

// A Partition is the content of a Partition record. The slices are replaced, never written to.
type Partition struct {
	Replicas, ISR []int32
	// of replicas, in their order; nil if the record is older than directories
	Directories                 []metarecord.ID
	rare                        *partitionExtra // nil if all of its fields are zero
	Leader                      int32           // -1 means none
	LeaderEpoch, PartitionEpoch int32
	// number of leader epochs before the present one in which no other broker led, at most 65,535
	unbroken uint16
	Durable  bool // see package election; false if there is only one replica
}

// A Lead is the time in which one broker was the only leader of a partition. The partition may have
// been without a leader in between, and epochs may have begun.
type Lead struct {
	By    int32 // 0 means unknown
	Since int32 // first leader epoch
}

// Led returns the lead of the present leader, or of the last one.
func (p *Partition) Led() Lead {
	l := Lead{p.Leader, p.LeaderEpoch - int32(p.unbroken)}
	if p.Leader < 0 {
		if l.By = p.extra().ledBy; l.By == 0 {
			return Lead{}
		}
	}
	return l
}

// setLed must be called after a change of Leader or LeaderEpoch. l is the lead before the change.
func (p *Partition) setLed(l Lead) {
	if p.Leader >= 0 && (p.Leader != l.By || l.By == 0) {
		l = leadOf(p.Leader, p.LeaderEpoch)
	}
	p.unbroken = uint16(min(max(p.LeaderEpoch-l.Since, 0), math.MaxUint16))
	e := p.extra()
	if e.ledBy = 0; p.Leader < 0 {
		e.ledBy = l.By
	}
	p.setExtra(e)
}

// leadOf returns the lead of a partition whose earlier leaders are unknown.
func leadOf(leader, epoch int32) Lead {
	if leader < 0 {
		return Lead{}
	}
	return Lead{leader, epoch}
}

// State returns the state that elections use. The slices are those of p.
func (p *Partition) State() election.Partition {
	e := p.extra()
	return election.Partition{
		Replicas: p.Replicas, InSync: p.ISR, Eligible: e.eligible, LastKnown: e.lastKnown, Leader: p.Leader,
		LeaderEpoch: p.LeaderEpoch, Epoch: p.PartitionEpoch, Recovering: e.recovering, Durable: p.Durable,
		Missing: p.Missing(),
	}
}

// partitionExtra has the fields that few partitions need. Replaced, never written to.
type partitionExtra struct {
	removing, adding    []int32 // replicas, while a reassignment is in progress
	eligible, lastKnown []int32 // eligible leader replicas (KIP-966), the last known leader
	ledBy               int32   // the last leader while there is none; 0 means unknown
	recovering          bool    // elected uncleanly and not confirmed since
}

func (p *Partition) extra() partitionExtra {
	if p.rare == nil {
		return partitionExtra{}
	}
	return *p.rare
}

func (p *Partition) setExtra(e partitionExtra) {
	if p.rare = &e; len(e.removing)+len(e.adding)+len(e.eligible)+len(e.lastKnown) == 0 && !e.recovering && e.ledBy == 0 {
		p.rare = nil
	}
}

// applyPartition adds the next partition of a topic. Partitions come in order, so that a topic
// never has gaps.
func (m *Image) applyPartition(rec *metarecord.Partition) error {
	t := m.ByID[rec.TopicID]
	if t == nil {
		return fmt.Errorf("partition of unknown topic %v", topic.ID(rec.TopicID))
	}
	if int(rec.Partition) != len(t.Partitions) {
		return fmt.Errorf("partition %d of topic %s, which has %d", rec.Partition, t.Name, len(t.Partitions))
	}
	if len(rec.Directories) > 0 && len(rec.Directories) != len(rec.Replicas) {
		return fmt.Errorf("partition %d of topic %s has %d replicas in %d directories", rec.Partition, t.Name, len(rec.Replicas), len(rec.Directories))
	}
	t = m.own(t)
	p := Partition{
		Replicas: rec.Replicas, ISR: rec.ISR, Directories: filled(rec.Directories),
		Leader: rec.Leader, LeaderEpoch: rec.LeaderEpoch, PartitionEpoch: rec.PartitionEpoch,
		Durable: rec.Durable,
	}
	p.setExtra(partitionExtra{
		removing: filled(rec.Removing), adding: filled(rec.Adding), recovering: rec.Recovering,
		eligible: filled(rec.EligibleLeaders), lastKnown: filled(rec.LastKnownLeader),
	})
	p.setLed(Lead{rec.LedBy, rec.LedSince})
	t.Partitions = append(t.Partitions, p)
	m.Partitions++
	return nil
}

// record returns the record that creates the partition in an empty image.
func (p Partition) record(number int, id topic.ID) metarecord.Record {
	e := p.extra()
	led := p.Led()
	if led == leadOf(p.Leader, p.LeaderEpoch) {
		led = Lead{}
	}
	return &metarecord.Partition{
		Partition: int32(number), TopicID: id, Replicas: p.Replicas, ISR: p.ISR, Removing: e.removing, Adding: e.adding,
		Directories: p.Directories, EligibleLeaders: e.eligible, LastKnownLeader: e.lastKnown,
		Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Recovering: e.recovering,
		Durable: p.Durable, LedBy: led.By, LedSince: led.Since,
	}
}

// filled returns list, or nil if it is empty.
func filled[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (m *Image) applyPartitionChange(rec *metarecord.PartitionChange) error {
	t := m.ByID[rec.TopicID]
	if t == nil || rec.Partition < 0 || int(rec.Partition) >= len(t.Partitions) {
		return fmt.Errorf("change of unknown partition %d of topic %v", rec.Partition, topic.ID(rec.TopicID))
	}
	replicas := t.Partitions[rec.Partition].Replicas
	if rec.Replicas != nil {
		replicas = rec.Replicas
	}
	if len(rec.Directories) > 0 && len(rec.Directories) != len(replicas) {
		return fmt.Errorf("partition %d of topic %s has %d replicas in %d directories", rec.Partition, t.Name, len(replicas), len(rec.Directories))
	}
	p := &m.own(t).Partitions[rec.Partition]
	p.PartitionEpoch++
	p.Replicas = replicas
	if rec.Directories != nil {
		p.Directories = filled(rec.Directories)
	}
	e := p.extra()
	for _, list := range []struct {
		to      *[]int32
		changed []int32
	}{{&p.ISR, rec.ISR}, {&e.removing, rec.Removing}, {&e.adding, rec.Adding}, {&e.eligible, rec.EligibleLeaders}, {&e.lastKnown, rec.LastKnownLeader}} {
		if list.changed != nil {
			*list.to = filled(list.changed)
		}
	}
	if rec.Recovery >= 0 {
		e.recovering = rec.Recovery > 0
	}
	p.setExtra(e)
	if rec.Durable != metarecord.Unchanged {
		p.Durable = rec.Durable == metarecord.Set
	}
	if rec.Leader != metarecord.NoChange {
		led := p.Led()
		p.Leader = rec.Leader
		p.LeaderEpoch++
		p.setLed(led)
	}
	return nil
}
