package image

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// MaxNewPartitions is the maximum number of partitions that one command creates. Kafka: a policy
// violation too.
const MaxNewPartitions = 10000

// Limits are the limits and rules for commands.
type Limits struct {
	Partitions int // of all topics
	Factor     int // replicas of new partitions of a topic that has none
	Policy     Policy
}

// A Creation is a command to create a topic. Its name, settings and numbers have been validated.
type Creation struct {
	Name               string
	ID                 topic.ID // zero means Drawn
	Drawn              topic.ID // a random id that no topic ever had
	Partitions, Factor int
	Assignment         [][]int32 // replicas, by partition; nil means that the controller places them
	Config             map[string]string
}

// CreateTopic returns the records that create a topic, none if it exists.
func (m *Image) CreateTopic(cr Creation, limits Limits) ([]metarecord.Record, error) {
	recs, errs := m.CreateTopics([]Creation{cr}, limits)
	return recs, errs[0]
}

// CreateTopics returns the records that create topics, each independently: errs[i] is why
// creations[i] is rejected. Placement continues after the last topic's.
func (m *Image) CreateTopics(creations []Creation, limits Limits) (recs []metarecord.Record, errs []error) {
	errs = make([]error, len(creations))
	names, ids, partitions := map[string]string{}, map[topic.ID]bool{}, 0 // of earlier ones
	for i, cr := range creations {
		key := topic.CollisionKey(cr.Name)
		own, err := m.create(cr, m.Partitions+partitions, limits.Policy)
		if other, ok := names[key]; err == nil && ok {
			err = collision(cr.Name, other)
		}
		if err == nil && ids[cr.ID] {
			err = fmt.Errorf("%w: %v, by another one of them", ErrTopicIDInUse, cr.ID)
		}
		if len(own) == 0 && err == nil {
			continue // it exists already
		}
		if err == nil {
			err = m.room(partitions+cr.Partitions, limits)
		}
		if errs[i] = err; err == nil {
			names[key], ids[cr.ID] = cr.Name, cr.ID != (topic.ID{})
			partitions += cr.Partitions
			recs = append(recs, own...)
		}
	}
	return recs, errs
}

// create returns the records that create a topic, none if it exists. turn is the turn of its first
// partition.
func (m *Image) create(cr Creation, turn int, policy Policy) ([]metarecord.Record, error) {
	if t := m.Topics[cr.Name]; t != nil && t.ID == cr.ID {
		return nil, cr.same(t)
	}
	if err := m.Claimable(cr.Name); err != nil {
		return nil, err
	}
	id := cr.ID
	switch other := m.ByID[id]; {
	case id == (topic.ID{}):
		id = cr.Drawn
	case other != nil:
		return nil, fmt.Errorf("%w: %v, by %q", ErrTopicIDInUse, id, other.Name)
	case m.Removed[id] != "":
		return nil, fmt.Errorf("%w: %v, by %q, which was deleted", ErrTopicIDInUse, id, m.Removed[id])
	}
	replicas, err := m.assign(placing{turn: turn, partitions: cr.Partitions, factor: cr.Factor, assignment: cr.Assignment})
	if err != nil {
		return nil, err
	}
	recs := []metarecord.Record{&metarecord.Topic{Name: cr.Name, ID: id}}
	recs = append(recs, ConfigRecords(metarecord.ResourceTopic, cr.Name, nil, cr.Config)...)
	n := newcomers{id: id, replicas: replicas, rules: policy(m, cr.Config)}
	return m.appendPartitions(recs, n), nil
}

// same returns nil if t is the requested topic.
func (cr Creation) same(t *Topic) error {
	if len(t.Partitions) != cr.Partitions || !maps.Equal(t.Config, cr.Config) {
		return fmt.Errorf("%w: with that id, and other partitions or settings", ErrTopicExists)
	}
	for i, p := range t.Partitions {
		if len(p.Replicas) != cr.Factor || cr.Assignment != nil && !slices.Equal(p.Replicas, cr.Assignment[i]) {
			return fmt.Errorf("%w: with that id, and other replicas", ErrTopicExists)
		}
	}
	return nil
}

// Claimable returns the reason why there can be no new topic of that name, or nil.
func (m *Image) Claimable(name string) error {
	if m.Topics[name] != nil {
		return ErrTopicExists
	}
	if other, ok := m.collisions[topic.CollisionKey(name)]; ok {
		return collision(name, other)
	}
	return nil
}

// collision returns the error for a new topic whose name collides with an existing one.
func collision(name, other string) error {
	if name == other {
		return ErrTopicExists
	}
	return fmt.Errorf("%w: it collides with %q in metric names, where '.' and '_' are the same", topic.ErrInvalidName, other)
}

// newcomers are partitions that are about to be created.
type newcomers struct {
	id       topic.ID
	first    int // number of the first one
	replicas [][]int32
	rules    Rules
}

// appendPartitions appends the records that create partitions. In sync are the replicas whose
// brokers serve, and the first of them leads; there must be one. Kafka:
// ReplicationControlManager.createTopic.
func (m *Image) appendPartitions(recs []metarecord.Record, n newcomers) []metarecord.Record {
	// by leader. Large topics share their lists, which are never written to.
	alike := map[int32]*metarecord.Partition{}
	for i, replicas := range n.replicas {
		p := &metarecord.Partition{Partition: int32(n.first + i), TopicID: n.id, Durable: len(replicas) > 1 && n.rules.SyncOnAck}
		if like := alike[replicas[0]]; like != nil && slices.Equal(like.Replicas, replicas) {
			p.Replicas, p.ISR, p.Directories = like.Replicas, like.ISR, like.Directories
		} else {
			p.Replicas, p.ISR, p.Directories = replicas, m.serving(replicas), m.directoriesOf(replicas)
			alike[replicas[0]] = p
		}
		p.Leader = p.ISR[0]
		recs = append(recs, p)
	}
	return recs
}

// serving returns the brokers of a list that serve and are not leaving.
func (m *Image) serving(brokers []int32) []int32 {
	if !slices.ContainsFunc(brokers, m.refuses) {
		return brokers
	}
	return slices.DeleteFunc(slices.Clone(brokers), m.refuses)
}

// room returns an error if the cluster would have too many partitions.
func (m *Image) room(more int, limits Limits) error {
	if m.Partitions+more > limits.Partitions {
		return policy("the cluster would have %d partitions, at most %d are allowed", m.Partitions+more, limits.Partitions)
	}
	return nil
}

// A Growth is a command to add partitions to a topic.
type Growth struct {
	Topic      string
	Total      int       // including the existing ones
	Assignment [][]int32 // of the new ones; nil means that the controller places them
}

// AddPartitions returns the records that grow a topic.
func (m *Image) AddPartitions(g Growth, limits Limits) ([]metarecord.Record, error) {
	t := m.Topics[g.Topic]
	if t == nil {
		return nil, &UnknownTopicError{g.Topic}
	}
	have := len(t.Partitions)
	switch {
	case g.Total <= have:
		return nil, fmt.Errorf("%w: %d, it has %d", ErrInvalidPartitions, g.Total, have)
	case g.Total-have > MaxNewPartitions:
		return nil, policy("%d new partitions, at most %d are created at once", g.Total-have, MaxNewPartitions)
	}
	if err := m.room(g.Total-have, limits); err != nil {
		return nil, err
	}
	factor, turn := limits.Factor, m.Partitions
	if have > 0 {
		// During a reassignment a partition has more replicas, which do not count here. Kafka
		// counts them.
		factor, turn = len(t.Partitions[0].layout().done().replicas), m.turnAfter(t.Partitions[have-1])
	}
	replicas, err := m.assign(placing{turn: turn, partitions: g.Total - have, factor: factor, assignment: g.Assignment})
	if err != nil {
		return nil, err
	}
	n := newcomers{id: t.ID, first: have, replicas: replicas, rules: limits.Policy(m, t.Config)}
	return m.appendPartitions(nil, n), nil
}

// DeleteTopic returns the record that removes a topic.
func (m *Image) DeleteTopic(name string) ([]metarecord.Record, error) {
	t := m.Topics[name]
	switch {
	case t == nil:
		return nil, &UnknownTopicError{name}
	case topic.IsInternal(name):
		return nil, policy("it holds the state of a coordinator")
	}
	return []metarecord.Record{&metarecord.RemoveTopic{ID: t.ID}}, nil
}

// ReserveProducerIDs returns the record that reserves the next n producer ids for a broker.
func (m *Image) ReserveProducerIDs(broker int32, n int64) []metarecord.Record {
	return []metarecord.Record{&metarecord.ProducerIDs{BrokerID: broker, BrokerEpoch: -1, Next: m.NextProducerID + n}}
}
