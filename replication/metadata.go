package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// Metadata describes the topics and brokers of a cluster, and the leader of each partition. The
// caller owns it, except that the slices of replicas are shared and must not be written to.
type Metadata struct {
	Version    int64 // grows with every change, also over restarts; see Cluster.WaitMetadata
	ClusterID  string
	Controller int32
	Brokers    []Broker // the brokers that serve, by id
	Fenced     []Broker // the other members of the cluster, by id
	Topics     map[string]TopicMetadata
}

// A Broker is one broker of the cluster.
type Broker struct {
	ID   int32
	Rack string // empty if the broker has no rack
}

// TopicMetadata describes one topic. If Err is set (an *UnknownTopicError, or ErrInvalidTopic),
// only Name is valid.
type TopicMetadata struct {
	Name       string
	ID         topic.ID
	Internal   bool
	Partitions []PartitionMetadata // by partition number
	Err        error
}

// PartitionMetadata describes one partition.
type PartitionMetadata struct {
	Leader        int32 // -1: none
	LeaderEpoch   int32
	Replicas, ISR []int32
	// Eligible has the replicas that may lead if the ISR is empty. LastKnown has the last leader,
	// if no other replica may lead (KIP-966: ELR). nil if there are none.
	Eligible, LastKnown []int32
}

// Metadata returns the metadata of the given topics, of all if none is given. It does not block.
func (c *Cluster) Metadata(ctx context.Context, topics ...string) (Metadata, error) {
	if err := ctx.Err(); err != nil {
		return Metadata{}, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return Metadata{}, ErrClosed
	}
	m := Metadata{
		Version: c.image.Version, ClusterID: c.clusterID, Controller: c.Controller(), Brokers: alive(c.image),
		Fenced: fenced(c.image), Topics: make(map[string]TopicMetadata, len(topics)),
	}
	if len(topics) == 0 {
		for name, t := range c.image.Topics {
			m.Topics[name] = describe(t)
		}
		return m, nil
	}
	similar := nearestSearch{cluster: c}
	for _, name := range topics {
		if t := c.image.Topics[name]; t != nil {
			m.Topics[name] = describe(t)
		} else if err := topic.ValidateName(name); err != nil {
			m.Topics[name] = TopicMetadata{Name: name, Err: err}
		} else {
			m.Topics[name] = TopicMetadata{Name: name, Err: &UnknownTopicError{Topic: name, Nearest: similar.nearest(c.image, name)}}
		}
	}
	return m, nil
}

// PartitionMetadata returns the metadata of one partition; its cost does not depend on the number
// of other partitions. The lists of the result must not be changed. Errors: ErrUnknownTopic if
// there is no such partition, ErrClosed, ctx's. It does not block.
func (c *Cluster) PartitionMetadata(ctx context.Context, tp record.TopicPartition) (PartitionMetadata, error) {
	if err := ctx.Err(); err != nil {
		return PartitionMetadata{}, err
	}
	_, p, err := c.find(tp)
	if err != nil {
		return PartitionMetadata{}, err
	}
	return describePartition(&p), nil
}

// MetadataSize returns how many topics, and partitions of them, Metadata describes for the same
// arguments. It costs a fraction of Metadata, and does not block.
func (c *Cluster) MetadataSize(topics ...string) (known, partitions int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(topics) == 0 {
		for _, t := range c.image.Topics {
			partitions += len(t.Partitions)
		}
		return len(c.image.Topics), partitions
	}
	for _, name := range topics {
		if t := c.image.Topics[name]; t != nil {
			known, partitions = known+1, partitions+len(t.Partitions)
		}
	}
	return known, partitions
}

// A TopicShape has the immutable properties of a topic, and its number of partitions.
type TopicShape struct {
	Name       string
	ID         topic.ID
	Partitions int
}

// TopicShapes returns all topics in any order, and the version of the metadata. It costs a fraction
// of Metadata, for callers that need the topics after every change. It does not block.
func (c *Cluster) TopicShapes() (version int64, shapes []TopicShape, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return 0, nil, ErrClosed
	}
	shapes = make([]TopicShape, 0, len(c.image.Topics))
	for _, t := range c.image.Topics {
		shapes = append(shapes, TopicShape{t.Name, t.ID, len(t.Partitions)})
	}
	return c.image.Version, shapes, nil
}

// describe returns the metadata of a topic.
func describe(t *image.Topic) TopicMetadata {
	m := TopicMetadata{Name: t.Name, ID: t.ID, Internal: topic.IsInternal(t.Name), Partitions: make([]PartitionMetadata, len(t.Partitions))}
	for i := range t.Partitions {
		m.Partitions[i] = describePartition(&t.Partitions[i])
	}
	return m
}

func describePartition(p *image.Partition) PartitionMetadata {
	s := p.State()
	return PartitionMetadata{
		Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Eligible: s.Eligible, LastKnown: s.LastKnown,
	}
}

// alive describes the brokers that are not fenced, by id.
func alive(img *image.Image) []Broker {
	ids := img.Serving()
	brokers := make([]Broker, len(ids))
	for i, id := range ids {
		brokers[i] = Broker{ID: id, Rack: img.Members[id].Rack}
	}
	return brokers
}

// fenced describes the brokers that are members but do not serve, by id.
func fenced(img *image.Image) (brokers []Broker) {
	for _, id := range slices.Sorted(maps.Keys(img.Members)) {
		if b := img.Members[id]; b.Fenced {
			brokers = append(brokers, Broker{ID: id, Rack: b.Rack})
		}
	}
	return brokers
}

// MetadataVersion returns the version of the metadata. It takes no lock, so that callers can check
// it for every record. It includes each change whose call has returned.
func (c *Cluster) MetadataVersion() int64 { return c.version.Load() }

// WaitMetadata waits until the version of the metadata is above after, and returns it. It does not
// poll. It returns early with the context's error or ErrClosed.
func (c *Cluster) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c.mu.Lock()
	if c.closed || c.image.Version > after {
		version, closed := c.image.Version, c.closed
		c.mu.Unlock()
		if closed {
			return 0, ErrClosed
		}
		return version, nil
	}
	e := &watermark.Entry[chan struct{}]{Value: make(chan struct{})}
	c.waiters.Add(e, after)
	c.mu.Unlock()
	select {
	case <-e.Value:
		c.mu.RLock()
		defer c.mu.RUnlock()
		return c.image.Version, nil
	case <-ctx.Done():
		c.forget(e)
		return 0, ctx.Err()
	case <-c.closing:
		c.forget(e)
		return 0, ErrClosed
	}
}

func (c *Cluster) forget(e *watermark.Entry[chan struct{}]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters.Remove(e)
}

// ClusterID returns the cluster's id, which is permanent: 22 characters of base64url.
func (c *Cluster) ClusterID() string { return c.clusterID }

// CoordinatorMemory returns the memory that the coordinators of c keep for clients. It is for
// coordinators and servers.
func (c *Cluster) CoordinatorMemory() *memory.Budget { return &c.memory }

// Controller returns the id of the broker that is the controller.
func (c *Cluster) Controller() int32 { return c.controller.Load() }

// TopicID returns the id of a topic, and whether the topic exists. It does not block.
func (c *Cluster) TopicID(name string) (topic.ID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if t := c.image.Topics[name]; t != nil {
		return t.ID, true
	}
	return topic.ID{}, false
}

// TopicName returns the name of the topic with an id, and whether it exists. It does not block.
func (c *Cluster) TopicName(id topic.ID) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if t := c.image.ByID[id]; t != nil {
		return t.Name, true
	}
	return "", false
}

// Leader returns the broker that leads a partition, or -1 if there is no leader or no such
// partition.
func (c *Cluster) Leader(topic string, p int32) int32 {
	if _, part, err := c.find(record.TopicPartition{Topic: topic, Partition: p}); err == nil {
		return part.Leader
	}
	return -1
}

// LeaderOf returns the broker that leads a partition, -1 if none does, and the leader epoch. It
// returns ErrUnknownTopic if there is no such partition, or ErrClosed. It does not block.
func (c *Cluster) LeaderOf(tp record.TopicPartition) (broker, epoch int32, err error) {
	_, p, err := c.find(tp)
	if err != nil {
		return -1, -1, err
	}
	return p.Leader, p.LeaderEpoch, nil
}

// find returns the metadata of a partition.
func (c *Cluster) find(tp record.TopicPartition) (*image.Topic, image.Partition, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.findLocked(tp)
}

func (c *Cluster) findLocked(tp record.TopicPartition) (*image.Topic, image.Partition, error) {
	if c.closed {
		return nil, image.Partition{}, ErrClosed
	}
	t := c.image.Topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
		return nil, image.Partition{}, unknownPartition(tp.Topic, tp.Partition)
	}
	return t, t.Partitions[tp.Partition], nil
}

// leaderReplica returns the replica that leads a partition. The request was sent to the given
// broker, which has to be the leader, or is anyBroker.
func (c *Cluster) leaderReplica(tp record.TopicPartition, asked int32) (*replica, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t, p, err := c.findLocked(tp)
	if err != nil {
		return nil, err
	}
	if asked != anyBroker && asked != p.Leader {
		return nil, notLedBy(tp, asked)
	}
	n := c.nodes[p.Leader]
	if n == nil {
		return nil, c.leaderlessLocked(tp)
	}
	if r := n.replica(tp); r != nil && r.id == t.ID {
		return r, nil
	}
	return n.place(tp, t.ID), nil // under the lock: a deletion that comes after finds it
}

func (c *Cluster) leaderless(tp record.TopicPartition) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.leaderlessLocked(tp)
}

// leaderlessLocked returns the error of a partition that no broker leads, with the reason why each
// replica that has its records does not.
func (c *Cluster) leaderlessLocked(tp record.TopicPartition) error {
	t, p, err := c.findLocked(tp)
	if err != nil || p.Leader >= 0 || !isSeveral(&p) {
		return leaderless(tp)
	}
	var why []error
	for _, id := range slices.Concat(p.ISR, p.State().Eligible) {
		n := c.nodes[id]
		if n == nil {
			why = append(why, fmt.Errorf("broker %d, which has its records, does not run", id))
		} else if r := n.replica(tp); r != nil && r.id == t.ID && r.loss() != nil {
			why = append(why, r.loss())
		}
	}
	return leaderless(tp, why...)
}

// replicaOf returns a partition's replica on a broker. nil: it was never written, or the broker
// does not serve, which is an error.
func (c *Cluster) replicaOf(tp record.TopicPartition, id topic.ID, broker int32) (*replica, error) {
	n := c.serving()[broker]
	if n == nil {
		return nil, leaderless(tp)
	}
	if r := n.replica(tp); r != nil && r.id == id {
		return r, nil
	}
	return nil, nil
}

// Brokers returns the ids, in order, of the brokers that serve.
func (c *Cluster) Brokers() []int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Serving()
}

// Registered returns the ids, in order, of the cluster's members. It includes brokers that are
// stopped, killed or cut off, but not brokers that Config leaves out.
func (c *Cluster) Registered() (ids []int32) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for id := range c.image.Members {
		if c.brokers[id] != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// away reports whether there is a broker that does not serve.
func (c *Cluster) away() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.image.Serving()) < len(c.image.Members) || len(c.nodes) < len(c.image.Members)
}
