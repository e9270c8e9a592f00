package kfake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// AddNode adds a broker. Its id is nodeID, or the highest id plus 1 if nodeID is -1. It listens on
// port, or on a free port if port is 0 or less. AddNode then chooses the leaders of all partitions
// again, among all brokers. It returns the id and the port. It returns an error if a node with that
// id exists or existed, or if the port is not available.
func (c *Cluster) AddNode(nodeID int32, port int) (int32, int, error) {
	registered := c.inside().Registered()
	if nodeID < 0 {
		nodeID = nodeOf(slices.Max(registered)) + 1
	} else if slices.Contains(registered, brokerOf(nodeID)) {
		return 0, 0, fmt.Errorf("kfake: there is a node %d already", nodeID)
	}
	c.mu.Lock()
	c.ports[brokerOf(nodeID)] = max(port, 0)
	c.mu.Unlock()
	if err := attempt(func() { c.server.AddBrokerID(brokerOf(nodeID), "") }); err != nil {
		return 0, 0, fmt.Errorf("kfake: add node %d: %w", nodeID, err)
	}
	_, text, err := net.SplitHostPort(c.server.Addr(brokerOf(nodeID)))
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err == nil {
		err = c.shuffle()
	}
	return nodeID, port, err
}

// RemoveNode removes a broker permanently. Its connections are cut, and other brokers become
// leaders of its partitions. It returns an error if the node does not exist or is the last one.
func (c *Cluster) RemoveNode(nodeID int32) error {
	if err := c.checkNode(nodeID); err != nil {
		return err
	}
	broker := brokerOf(nodeID)
	left := slices.DeleteFunc(c.inside().Cluster.Brokers(), func(id int32) bool { return id == broker })
	if len(left) == 0 {
		return errors.New("kfake: the last node cannot be removed")
	}
	if err := c.evacuate(broker, left); err != nil {
		return fmt.Errorf("kfake: remove node %d: %w", nodeID, err)
	}
	c.mu.Lock()
	close(c.goneOfLocked(broker)) // ends waits for control functions on its connections
	c.mu.Unlock()
	if err := attempt(func() { c.server.RemoveBroker(broker) }); err != nil {
		return fmt.Errorf("kfake: remove node %d: %w", nodeID, err)
	}
	return c.shuffle()
}

// evacuate moves the replicas of a broker to others.
func (c *Cluster) evacuate(broker int32, others []int32) error {
	ctx, cancel := c.context()
	defer cancel()
	var moves []replication.Reassignment
	err := c.eachPartition(ctx, true, func(tp record.TopicPartition, p replication.PartitionMetadata) error {
		if !slices.Contains(p.Replicas, broker) {
			return nil
		}
		replicas := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return id == broker })
		for _, id := range others {
			if len(replicas) < len(p.Replicas) && !slices.Contains(replicas, id) {
				replicas = append(replicas, id)
			}
		}
		moves = append(moves, replication.Reassignment{Partition: tp, Replicas: replicas})
		return nil
	})
	if err != nil {
		return err
	}
	return c.reassign(ctx, moves)
}

// reassign gives partitions other replicas and waits until they have them.
func (c *Cluster) reassign(ctx context.Context, moves []replication.Reassignment) error {
	if len(moves) == 0 {
		return nil
	}
	inside := c.inside()
	if err := errors.Join(inside.AlterPartitionReassignments(ctx, moves...)...); err != nil {
		return err
	}
	tps := make([]record.TopicPartition, len(moves))
	for i, m := range moves {
		tps[i] = m.Partition
	}
	return inside.WaitReassigned(ctx, tps...)
}

// eachPartition calls f for every partition, or for every partition of the coordinators' topics if
// internal is set.
func (c *Cluster) eachPartition(ctx context.Context, internal bool, f func(record.TopicPartition, replication.PartitionMetadata) error) error {
	md, err := c.inside().Cluster.Metadata(ctx)
	if err != nil {
		return err
	}
	for _, t := range md.Topics {
		for i, p := range t.Partitions {
			if t.Internal && !internal {
				continue
			}
			if err := f(record.TopicPartition{Topic: t.Name, Partition: int32(i)}, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// MoveTopicPartition makes a node the leader of a partition. If the node has no replica, the last
// replica of the assignment moves there. It returns an error if the partition or node does not
// exist.
func (c *Cluster) MoveTopicPartition(topic string, partition, nodeID int32) error {
	if err := c.checkNode(nodeID); err != nil {
		return err
	}
	tp := record.TopicPartition{Topic: topic, Partition: partition}
	ctx, cancel := c.context()
	defer cancel()
	md, err := c.inside().Cluster.Metadata(ctx, topic)
	if err != nil {
		return err
	}
	t := md.Topics[topic]
	if t.Err != nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return fmt.Errorf("kfake: there is no partition %s-%d", topic, partition)
	}
	return c.lead(ctx, tp, t.Partitions[partition], brokerOf(nodeID))
}

// lead makes a broker the leader of a partition.
func (c *Cluster) lead(ctx context.Context, tp record.TopicPartition, p replication.PartitionMetadata, broker int32) error {
	if p.Leader == broker {
		return nil
	}
	if !slices.Contains(p.Replicas, broker) {
		replicas := append([]int32{broker}, p.Replicas[:len(p.Replicas)-1]...)
		if err := c.reassign(ctx, []replication.Reassignment{{Partition: tp, Replicas: replicas}}); err != nil {
			return err
		}
		if c.inside().Leader(tp.Topic, tp.Partition) == broker {
			return nil
		}
	}
	return errors.Join(attempt(func() { c.server.MoveLeader(tp.Topic, tp.Partition, broker) }))
}

// ShufflePartitionLeaders moves the leader of every partition to another random node, if there are
// several nodes.
func (c *Cluster) ShufflePartitionLeaders() {
	if err := c.shuffle(); err != nil {
		c.logf(LogLevelError, "shuffle partition leaders: %v", err)
	}
}

func (c *Cluster) shuffle() error {
	ctx, cancel := c.context()
	defer cancel()
	brokers := c.inside().Cluster.Brokers()
	return c.eachPartition(ctx, false, func(tp record.TopicPartition, p replication.PartitionMetadata) error {
		others := slices.DeleteFunc(slices.Clone(brokers), func(id int32) bool { return id == p.Leader })
		if len(others) == 0 {
			return nil
		}
		return c.lead(ctx, tp, p, others[rand.IntN(len(others))])
	})
}

// RehashCoordinators moves the coordinators of all groups and transactional ids to other nodes, if
// there are several, so that clients must look them up again. Their state is kept.
func (c *Cluster) RehashCoordinators() {
	if err := attempt(func() { c.server.ShuffleLeaders(c.coordinatorTopics()...) }); err != nil {
		c.logf(LogLevelError, "rehash coordinators: %v", err)
	}
}

// coordinatorTopics returns the existing internal topics whose leaders are coordinators.
func (c *Cluster) coordinatorTopics() (names []string) {
	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
		if _, ok := c.inside().TopicID(name); ok {
			names = append(names, name)
		}
	}
	return names
}

// SetFollowers gives a partition replicas on these nodes, in addition to its leader. Clients may
// fetch from them. As in Kafka every in-sync replica serves fetches, so nil changes nothing. A
// partition or node that does not exist is ignored.
func (c *Cluster) SetFollowers(topic string, partition int32, followers []int32) {
	ctx, cancel := c.context()
	defer cancel()
	err := c.eachPartition(ctx, false, func(tp record.TopicPartition, p replication.PartitionMetadata) error {
		if tp.Topic != topic || tp.Partition != partition || len(followers) == 0 {
			return nil
		}
		replicas := []int32{p.Leader}
		for _, node := range followers {
			if c.checkNode(node) == nil && !slices.Contains(replicas, brokerOf(node)) {
				replicas = append(replicas, brokerOf(node))
			}
		}
		if err := c.reassign(ctx, []replication.Reassignment{{Partition: tp, Replicas: replicas}}); err != nil {
			return err
		}
		return c.inside().WaitISR(ctx, tp, replicas...)
	})
	if err != nil {
		c.logf(LogLevelError, "set followers of %s-%d: %v", topic, partition, err)
	}
}

// CoordinatorFor returns the coordinator of the group or transactional id named key, -1 if there is
// none at present. The two may have different coordinators: it returns the transactional id's if
// the id has been used, else the group's.
func (c *Cluster) CoordinatorFor(key string) int32 {
	ctx, cancel := c.context()
	defer cancel()
	if _, err := c.inside().TransactionCoordinator().Describe(ctx, key); err == nil {
		if broker, err := c.inside().TransactionCoordinator().FindCoordinator(ctx, key); err == nil {
			return nodeOf(broker)
		}
	}
	broker, err := c.inside().Coordinator.FindCoordinator(ctx, key)
	if err != nil {
		return -1
	}
	return nodeOf(broker)
}

// LeaderFor returns the leader of a partition, -1 if it has none or does not exist.
func (c *Cluster) LeaderFor(topic string, partition int32) int32 {
	return nodeOf(c.inside().Leader(topic, partition))
}

func (c *Cluster) logf(level LogLevel, format string, args ...any) {
	if c.cfg.logger != nil {
		c.cfg.logger.Logf(level, format, args...)
	}
}
