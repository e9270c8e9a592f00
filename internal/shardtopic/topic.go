// Package shardtopic is an internal topic of a cluster in this process, as package coordinator runs
// machines over it: one leader epoch of a partition is a Log.
package shardtopic

import (
	"cmp"
	"context"
	"errors"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A Topic is an internal topic, which need not exist yet. It is safe for concurrent use.
type Topic struct {
	Cluster    *replication.Cluster
	Name       string
	Properties map[string]string // to be created with
}

// maxReplicas is the number of replicas by default, if there are as many brokers. Kafka:
// offsets.topic.replication.factor, transaction.state.log.replication.factor.
const maxReplicas = 3

// MayCreate returns why the topic cannot be created with so many replicas, 0 being the default:
// an error that is replication.ErrInvalidReplicationFactor if there are not as many brokers.
func (t *Topic) MayCreate(replicas int) error {
	_, _, err := t.Cluster.DryRun().CreateTopic(context.Background(), t.Name, topic.Config{Partitions: 1, ReplicationFactor: max(replicas, 1)})
	if errors.Is(err, replication.ErrInvalidReplicationFactor) {
		return err
	}
	return nil
}

// DefaultReplicas is how many replicas the topic is created with by default. Brokers that do not
// serve count: with fewer replicas it would be left when they are back.
func (t *Topic) DefaultReplicas() int { return min(maxReplicas, len(t.Cluster.Registered())) }

// Create makes the topic if there is none, and returns how many partitions it has. replicas 0 is
// the default.
func (t *Topic) Create(ctx context.Context, partitions int32, replicas int) (int32, error) {
	replicas = cmp.Or(replicas, t.DefaultReplicas())
	if err := t.Cluster.EnsureTopic(ctx, t.Name, topic.Config{Partitions: int(partitions), ReplicationFactor: replicas, Properties: t.Properties}); err != nil && !errors.Is(err, replication.ErrTopicDiffers) {
		return 0, err
	}
	md, err := t.Cluster.Metadata(ctx, t.Name)
	if err != nil {
		return 0, err
	}
	return int32(len(md.Topics[t.Name].Partitions)), md.Topics[t.Name].Err
}

// Partitions returns how many partitions the topic has, 0 if there is none.
func (t *Topic) Partitions(ctx context.Context) (int32, error) {
	md, err := t.Cluster.Metadata(ctx, t.Name)
	if err != nil {
		return 0, err
	}
	info := md.Topics[t.Name]
	if errors.Is(info.Err, replication.ErrUnknownTopic) {
		return 0, nil
	}
	return int32(len(info.Partitions)), info.Err
}

// Leader returns the leader of a partition, -1 if there is none, and the leader epoch, which never
// decreases. It does not block.
func (t *Topic) Leader(p int32) (broker, epoch int32, err error) {
	return t.Cluster.LeaderOf(record.TopicPartition{Topic: t.Name, Partition: p})
}

// Log returns a partition as it is led in one leader epoch.
func (t *Topic) Log(p, epoch int32) *Log {
	return &Log{t.Cluster, record.TopicPartition{Topic: t.Name, Partition: p}, epoch}
}
