package replication

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// An image is the cluster's metadata as of one offset of the controller's log: what applying the
// log's records from the first on gives. apply is the only function that changes it, live and at
// recovery alike. It is not safe for concurrent use.
type image struct {
	version    int64 // of the metadata: offset after the last record applied
	topics     map[string]*topicImage
	byID       map[topic.ID]*topicImage
	collisions map[string]string // topic.CollisionKey -> name
	// removed is every topic that ever was removed, with its name: directories of these may be
	// deleted.
	removed          map[topic.ID]string
	partitions       int // of all topics
	nextProducerID   int64
	producerIDBroker int32 // that got the last of them
	// brokers is what was set on brokers while they run, by their keys; "": on all. Replaced, never
	// written to.
	brokers map[string]map[string]string

	members  map[int32]member // the brokers, by id. Replaced, never written to
	features map[string]int16 // levels, by name. Replaced, never written to

	owned map[topic.ID]bool // topics copied since the last publish, which nobody else sees yet
}

// topicImage is one topic's metadata. Immutable once published: a change makes another.
type topicImage struct {
	name       string
	id         topic.ID
	config     map[string]string // what was set explicitly
	partitions []partitionImage
}

// partitionImage is all that a Partition record says. The slices are replaced, never written to.
type partitionImage struct {
	replicas, isr               []int32
	directories                 []metarecord.ID // of replicas, in their order; nil: written before they were
	rare                        *partitionExtra // nil: nothing of it
	leader                      int32           // -1: none
	leaderEpoch, partitionEpoch int32
}

// partitionExtra is what few partitions have. Replaced, never written to.
type partitionExtra struct {
	removing, adding    []int32 // replicas, while a reassignment is under way
	eligible, lastKnown []int32 // eligible leader replicas (KIP-966), the last known leader
	recovering          bool    // elected uncleanly and not confirmed since
}

func (p *partitionImage) extra() partitionExtra {
	if p.rare == nil {
		return partitionExtra{}
	}
	return *p.rare
}

func (p *partitionImage) setExtra(e partitionExtra) {
	if p.rare = &e; len(e.removing)+len(e.adding)+len(e.eligible)+len(e.lastKnown) == 0 && !e.recovering {
		p.rare = nil
	}
}

func newImage() *image {
	return &image{
		topics:     map[string]*topicImage{},
		byID:       map[topic.ID]*topicImage{},
		collisions: map[string]string{},
		removed:    map[topic.ID]string{},
		brokers:    map[string]map[string]string{},
		members:    map[int32]member{},
		features:   map[string]int16{},
		owned:      map[topic.ID]bool{},
	}
}

// apply takes in one record. An error means that the record does not fit what came before it; the
// image is unchanged then.
func (m *image) apply(rec metarecord.Record) error {
	switch rec := rec.(type) {
	case *metarecord.Topic:
		return m.applyTopic(rec)
	case *metarecord.RemoveTopic:
		return m.applyRemoveTopic(rec)
	case *metarecord.Partition:
		return m.applyPartition(rec)
	case *metarecord.PartitionChange:
		return m.applyPartitionChange(rec)
	case *metarecord.Config:
		return m.applyConfig(rec)
	case *metarecord.RegisterBroker:
		return m.applyRegisterBroker(rec)
	case *metarecord.UnregisterBroker:
		return m.applyUnregisterBroker(rec)
	case *metarecord.BrokerChange:
		return m.applyBrokerChange(rec)
	case *metarecord.FeatureLevel:
		return m.applyFeatureLevel(rec)
	case *metarecord.ProducerIDs:
		if rec.Next < m.nextProducerID {
			return fmt.Errorf("producer ids go back from %d to %d", m.nextProducerID, rec.Next)
		}
		m.nextProducerID, m.producerIDBroker = rec.Next, rec.BrokerID
	case *metarecord.NoOp:
		if rec.Snapshot {
			*m = *newImage() // the state follows
		}
	default:
		return fmt.Errorf("%w: %T", errLaterRecord, rec)
	}
	return nil
}

func (m *image) applyTopic(rec *metarecord.Topic) error {
	if err := topic.ValidateName(rec.Name); err != nil {
		return err
	}
	if m.topics[rec.Name] != nil || m.byID[rec.ID] != nil {
		return fmt.Errorf("topic %s (%v) exists already", rec.Name, topic.ID(rec.ID))
	}
	t := &topicImage{name: rec.Name, id: rec.ID, config: map[string]string{}}
	m.owned[t.id] = true
	m.collisions[topic.CollisionKey(t.name)] = t.name
	m.put(t)
	return nil
}

func (m *image) put(t *topicImage) { m.topics[t.name], m.byID[t.id] = t, t }

func (m *image) applyRemoveTopic(rec *metarecord.RemoveTopic) error {
	t := m.byID[rec.ID]
	if t == nil {
		return fmt.Errorf("removal of unknown topic %v", topic.ID(rec.ID))
	}
	delete(m.topics, t.name)
	delete(m.byID, t.id)
	delete(m.collisions, topic.CollisionKey(t.name))
	m.removed[t.id] = t.name
	m.partitions -= len(t.partitions)
	return nil
}

// applyPartition adds the next partition of a topic. Partitions come in order, so that a topic
// never has gaps.
func (m *image) applyPartition(rec *metarecord.Partition) error {
	t := m.byID[rec.TopicID]
	if t == nil {
		return fmt.Errorf("partition of unknown topic %v", topic.ID(rec.TopicID))
	}
	if int(rec.Partition) != len(t.partitions) {
		return fmt.Errorf("partition %d of topic %s, which has %d", rec.Partition, t.name, len(t.partitions))
	}
	if len(rec.Directories) > 0 && len(rec.Directories) != len(rec.Replicas) {
		return fmt.Errorf("partition %d of topic %s has %d replicas in %d directories", rec.Partition, t.name, len(rec.Replicas), len(rec.Directories))
	}
	t = m.own(t)
	p := partitionImage{
		replicas: rec.Replicas, isr: rec.ISR, directories: filled(rec.Directories),
		leader: rec.Leader, leaderEpoch: rec.LeaderEpoch, partitionEpoch: rec.PartitionEpoch,
	}
	p.setExtra(partitionExtra{
		removing: filled(rec.Removing), adding: filled(rec.Adding), recovering: rec.Recovering,
		eligible: filled(rec.EligibleLeaders), lastKnown: filled(rec.LastKnownLeader),
	})
	t.partitions = append(t.partitions, p)
	m.partitions++
	return nil
}

// record returns the record that makes the partition out of nothing.
func (p partitionImage) record(number int, id topic.ID) metarecord.Record {
	e := p.extra()
	return &metarecord.Partition{
		Partition: int32(number), TopicID: id, Replicas: p.replicas, ISR: p.isr, Removing: e.removing, Adding: e.adding,
		Directories: p.directories, EligibleLeaders: e.eligible, LastKnownLeader: e.lastKnown,
		Leader: p.leader, LeaderEpoch: p.leaderEpoch, PartitionEpoch: p.partitionEpoch, Recovering: e.recovering,
	}
}

// filled returns a list, nil for an empty one: whether a record says so or nothing, there is none.
func filled[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (m *image) applyPartitionChange(rec *metarecord.PartitionChange) error {
	t := m.byID[rec.TopicID]
	if t == nil || rec.Partition < 0 || int(rec.Partition) >= len(t.partitions) {
		return fmt.Errorf("change of unknown partition %d of topic %v", rec.Partition, topic.ID(rec.TopicID))
	}
	replicas := t.partitions[rec.Partition].replicas
	if rec.Replicas != nil {
		replicas = rec.Replicas
	}
	if len(rec.Directories) > 0 && len(rec.Directories) != len(replicas) {
		return fmt.Errorf("partition %d of topic %s has %d replicas in %d directories", rec.Partition, t.name, len(replicas), len(rec.Directories))
	}
	p := &m.own(t).partitions[rec.Partition]
	p.partitionEpoch++
	p.replicas = replicas
	if rec.Directories != nil {
		p.directories = filled(rec.Directories)
	}
	e := p.extra()
	for _, list := range []struct {
		to      *[]int32
		changed []int32
	}{{&p.isr, rec.ISR}, {&e.removing, rec.Removing}, {&e.adding, rec.Adding}, {&e.eligible, rec.EligibleLeaders}, {&e.lastKnown, rec.LastKnownLeader}} {
		if list.changed != nil {
			*list.to = filled(list.changed)
		}
	}
	if rec.Recovery >= 0 {
		e.recovering = rec.Recovery > 0
	}
	p.setExtra(e)
	if rec.Leader != metarecord.NoChange {
		p.leader = rec.Leader
		p.leaderEpoch++
	}
	return nil
}

func (m *image) applyConfig(rec *metarecord.Config) error {
	if rec.ResourceType == metarecord.ResourceBroker {
		m.applyBrokerConfig(rec)
		return nil
	}
	if rec.ResourceType != metarecord.ResourceTopic {
		return fmt.Errorf("configuration of resource type %d", rec.ResourceType)
	}
	t := m.topics[rec.ResourceName]
	if t == nil {
		return fmt.Errorf("configuration of unknown topic %q", rec.ResourceName)
	}
	t = m.own(t)
	if rec.Value == nil {
		delete(t.config, rec.Name)
	} else {
		t.config[rec.Name] = *rec.Value
	}
	return nil
}

// applyBrokerConfig replaces the maps that it changes: others read them without a lock.
func (m *image) applyBrokerConfig(rec *metarecord.Config) {
	brokers := maps.Clone(m.brokers)
	config := maps.Clone(brokers[rec.ResourceName])
	if config == nil {
		config = map[string]string{}
	}
	if rec.Value == nil {
		delete(config, rec.Name)
	} else {
		config[rec.Name] = *rec.Value
	}
	if brokers[rec.ResourceName] = config; len(config) == 0 {
		delete(brokers, rec.ResourceName)
	}
	m.brokers = brokers
}

// own returns the topic as a copy that may be changed until the next publish, and puts it in place
// of t.
func (m *image) own(t *topicImage) *topicImage {
	if m.owned[t.id] {
		return t
	}
	changed := &topicImage{name: t.name, id: t.id, config: map[string]string{}, partitions: slices.Clone(t.partitions)}
	maps.Copy(changed.config, t.config)
	m.put(changed)
	m.owned[t.id] = true
	return changed
}

// publish makes everything applied so far immutable, as of the given version.
func (m *image) publish(version int64) {
	m.version = version
	clear(m.owned)
}
