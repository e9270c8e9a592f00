package replication

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// A role is the role of one broker in a partition with several replicas, from the metadata.
type role struct {
	state     image.Partition
	followers []partition.Follower // all except the leader
	unsynced  bool                 // the leader must report when Durable holds
	fenced    bool                 // the broker is fenced, and leads nothing, even if the state still has it as leader
	leader    *replica             // to copy from; nil: there is none, or its broker does not serve yet
}

// role returns the role of the broker in a partition; ok is false if the partition does not exist,
// or no longer does, or if the broker has no replica of it.
func (m nodeMetadata) role(tp record.TopicPartition, id topic.ID) (r role, ok bool) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	t := m.c.image.ByID[id]
	if t == nil || int(tp.Partition) >= len(t.Partitions) {
		return r, false
	}
	r.state = t.Partitions[tp.Partition]
	if !slices.Contains(r.state.Replicas, m.broker) {
		return r, false
	}
	r.fenced = m.c.image.Members[m.broker].Fenced
	if s := r.state.State(); s.Leader == m.broker && !s.Durable && len(s.Eligible) == 0 {
		r.unsynced = len(s.Replicas) > 1 && m.c.rules(m.c.image, t.Config).SyncOnAck
	}
	if n := m.c.nodes[r.state.Leader]; n != nil && n.id != m.broker {
		r.leader = n.place(tp, id) // under the lock: a deletion that comes after finds it
	}
	for _, id := range r.state.Replicas {
		if b, known := m.c.image.Members[id]; id != r.state.Leader && known {
			r.followers = append(r.followers, partition.Follower{Broker: id, Incarnation: b.Epoch, Alive: !b.Fenced && !b.Leaving})
		}
	}
	return r, true
}

// isInSync reports whether a broker's replica of a partition is in sync.
func (m nodeMetadata) isInSync(r *replica, broker int32) bool {
	t := m.topicOf(r.tp, r.id)
	return t != nil && slices.Contains(t.Partitions[r.tp.Partition].ISR, broker)
}

// incarnationEpoch returns the epoch of the broker's incarnation.
func (m nodeMetadata) incarnationEpoch() int64 {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	return m.c.image.Members[m.broker].Epoch
}

// isSeveral reports whether a partition has several replicas.
func isSeveral(p *image.Partition) bool { return len(p.Replicas) > 1 }

// concerned returns the partitions with several replicas that a change of the metadata affects,
// directly or by a broker that has one of the replicas. While the cluster opens there are none: the
// brokers have not loaded their directories yet.
func (c *Cluster) concerned(recs []metarecord.Record) (tps []placeOf) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.loaded {
		return nil
	}
	var brokers []int32
	add := func(id topic.ID, partition int32, moved bool) {
		t := c.image.ByID[id]
		if t != nil && (moved || isSeveral(&t.Partitions[partition])) {
			tps = append(tps, placeOf{t, partition})
		}
	}
	for _, rec := range recs {
		switch rec := rec.(type) {
		case *metarecord.Partition:
			add(rec.TopicID, rec.Partition, false)
		case *metarecord.PartitionChange:
			add(rec.TopicID, rec.Partition, rec.Replicas != nil) // an only remaining replica has to be notified
		case *metarecord.RegisterBroker:
			brokers = append(brokers, rec.BrokerID)
		case *metarecord.BrokerChange:
			brokers = append(brokers, rec.BrokerID)
		}
	}
	if len(brokers) > 0 {
		tps = append(tps, c.hostedLocked(brokers)...)
	}
	return tps
}

// placeOf is a partition of a topic.
type placeOf struct {
	topic     *image.Topic
	partition int32
}

func (p placeOf) tp() record.TopicPartition {
	return record.TopicPartition{Topic: p.topic.Name, Partition: p.partition}
}

func (p placeOf) replicas() []int32 { return p.topic.Partitions[p.partition].Replicas }

// hostedLocked returns the partitions with several replicas that have one on any of the brokers.
func (c *Cluster) hostedLocked(brokers []int32) (tps []placeOf) {
	for _, t := range c.image.Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if isSeveral(p) && slices.ContainsFunc(p.Replicas, func(id int32) bool { return slices.Contains(brokers, id) }) {
				tps = append(tps, placeOf{t, int32(i)})
			}
		}
	}
	return tps
}

// settle gives the replicas of partitions on all serving brokers their roles from the metadata:
// leader, follower or neither.
func (c *Cluster) settle(tps []placeOf) {
	if len(tps) == 0 {
		return
	}
	serving := c.serving()
	for _, leads := range []bool{true, false} { // the leader comes first: the others send it requests
		of := map[*node][]*replica{}
		for _, p := range tps {
			for _, id := range p.replicas() {
				n := serving[id]
				if n != nil && leads == (id == p.topic.Partitions[p.partition].Leader) {
					of[n] = append(of[n], n.place(p.tp(), p.topic.ID))
				}
			}
		}
		nodes := slices.SortedFunc(maps.Keys(of), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
		_ = c.heed(nodes, func(n *node, step func()) error {
			return forEach(of[n], func(_ int, r *replica) error {
				n.settle(r)
				step()
				return nil
			})
		})
	}
}

// settleLoaded settles all partitions of a cluster whose brokers have loaded their files.
func (c *Cluster) settleLoaded() {
	c.mu.Lock()
	c.loaded = true
	brokers := slices.Sorted(maps.Keys(c.nodes))
	c.mu.Unlock()
	c.settleHosted(brokers...)
}

// settleHosted settles the partitions that have a replica on any of the brokers.
func (c *Cluster) settleHosted(brokers ...int32) {
	c.mu.RLock()
	tps := c.hostedLocked(brokers)
	c.mu.RUnlock()
	c.settle(tps)
}
