package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// MoveLeader makes a broker with a replica the leader of a partition. No records are lost, and
// clients get NOT_LEADER_OR_FOLLOWER from the former leader. MoveLeader waits until the replica is
// in sync. It fails the test if that does not happen, or if the broker has no replica.
func (s *Server) MoveLeader(topic string, partition, to int32) {
	s.t.Helper()
	s.within(fmt.Sprintf("MoveLeader(%s-%d to broker %d)", topic, partition, to), func(s *Server, _ *visit) {
		ctx, cancel := s.waitContext()
		defer cancel()
		tp, cluster := record.TopicPartition{Topic: topic, Partition: partition}, s.Cluster().Backend().Cluster
		if err := moveLeader(ctx, cluster, tp, to); err != nil {
			s.t.Fatalf("kafkatest: move leader of %s-%d to broker %d: %v", topic, partition, to, err)
		}
	})
}

func moveLeader(ctx context.Context, c *replication.Cluster, tp record.TopicPartition, to int32) error {
	err := awaitPartition(ctx, c, tp, func(p replication.PartitionMetadata) bool {
		return slices.Contains(p.ISR, to) || !slices.Contains(p.Replicas, to)
	})
	if err != nil {
		return err
	}
	return c.TransferLeader(ctx, tp, to)
}

// WaitISR waits until the in-sync set of a partition is exactly brokers, in any order. It fails the
// test at once if one of them has no replica, or if brokers is empty.
func (s *Server) WaitISR(topic string, partition int32, brokers ...int32) {
	s.t.Helper()
	if len(brokers) == 0 {
		s.t.Fatalf("kafkatest: WaitISR: of %s-%d no broker: one at least is in sync", topic, partition)
	}
	s.within(fmt.Sprintf("WaitISR(%s-%d, %v)", topic, partition, brokers), func(s *Server, _ *visit) { s.waitISR(topic, partition, brokers) })
}

func (s *Server) waitISR(topic string, partition int32, brokers []int32) {
	ctx, cancel := s.waitContext()
	defer cancel()
	want := slices.Compact(slices.Sorted(slices.Values(brokers)))
	var last []int32
	strange := int32(0) // a broker without a replica; 0: none
	tp := record.TopicPartition{Topic: topic, Partition: partition}
	err := awaitPartition(ctx, s.Cluster().Backend().Cluster, tp, func(p replication.PartitionMetadata) bool {
		last = slices.Sorted(slices.Values(p.ISR))
		if i := slices.IndexFunc(want, func(id int32) bool { return !slices.Contains(p.Replicas, id) }); i >= 0 {
			strange = want[i]
		}
		return slices.Equal(last, want) || strange != 0
	})
	if strange != 0 {
		s.t.Fatalf("kafkatest: waiting for %v to be in sync for %s-%d: broker %d has no replica; %v are in sync", want, topic, partition, strange, last)
	}
	if err != nil {
		s.t.Fatalf("kafkatest: waiting for %v to be in sync for %s-%d: %v; %v are", want, topic, partition, err, last)
	}
}

// awaitPartition waits until cond returns true for the metadata of a partition.
func awaitPartition(ctx context.Context, c *replication.Cluster, tp record.TopicPartition, cond func(replication.PartitionMetadata) bool) error {
	for version := int64(-1); ; {
		md, err := c.Metadata(ctx, tp.Topic)
		if err != nil {
			return err
		}
		t := md.Topics[tp.Topic]
		if t.Err != nil {
			return t.Err
		}
		if tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
			return replication.ErrUnknownTopic
		}
		if cond(t.Partitions[tp.Partition]) {
			return nil
		}
		version = md.Version
		if _, err = c.WaitMetadata(ctx, version); err != nil {
			return err
		}
	}
}

// ShuffleLeaders moves the leader of every partition of the topics, or of all topics except
// internal ones if none is given. The new leader is the next in-sync replica in the order of the
// assignment. So the result is deterministic, and as many calls as there are replicas restore the
// first leaders. It returns the number of leaders that moved: a partition with one in-sync replica
// keeps its leader. It fails the test if the metadata cannot be changed.
func (s *Server) ShuffleLeaders(topics ...string) (moved int) {
	s.t.Helper()
	s.within(fmt.Sprintf("ShuffleLeaders(%s)", strings.Join(topics, ", ")), func(s *Server, _ *visit) { moved = s.shuffleLeaders(topics) })
	return moved
}

func (s *Server) shuffleLeaders(topics []string) (moved int) {
	ctx, cancel := s.waitContext()
	defer cancel()
	c := s.Cluster().Backend().Cluster
	md, err := c.Metadata(ctx, topics...)
	for _, t := range md.Topics {
		if err == nil {
			err = t.Err
		}
		for i, p := range t.Partitions {
			to := nextLeader(p)
			if err != nil || to == p.Leader || len(topics) == 0 && t.Internal {
				continue
			}
			err = c.TransferLeader(ctx, record.TopicPartition{Topic: t.Name, Partition: int32(i)}, to)
			moved++
		}
	}
	if err != nil {
		s.t.Fatalf("kafkatest: shuffle leaders: %v", err)
	}
	return moved
}

// nextLeader returns the next in-sync replica after the leader in the assignment, or the leader if
// there is none.
func nextLeader(p replication.PartitionMetadata) int32 {
	at := slices.Index(p.Replicas, p.Leader)
	for i := range p.Replicas {
		if id := p.Replicas[(at+1+i)%len(p.Replicas)]; slices.Contains(p.ISR, id) {
			return id
		}
	}
	return p.Leader
}
