package strata

import (
	"context"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// ClusterID returns the id of the cluster, which was chosen when its directory was created: 22
// characters of base64url. A backup has the id of its original.
func (c *Cluster) ClusterID() string { return c.brokers.ClusterID() }

// CreateTopic creates a topic. When it returns nil the topic is on stable storage and can be
// written to. Directories of its partitions are created at their first write.
//
// Errors: ErrTopicExists, replication.ErrInvalidTopic (also if the name differs from an existing
// one only in '.' and '_'), replication.ErrInvalidPartitions,
// replication.ErrInvalidReplicationFactor, replication.ErrPolicyViolation (more than 10,000
// partitions), *topic.ConfigError, replication.ErrClosed, ctx's. If ctx ends during the call, the
// topic may still be created.
func (c *Cluster) CreateTopic(ctx context.Context, name string, cfg topic.Config) error {
	return c.brokers.CreateTopic(ctx, name, cfg)
}

// EnsureTopic is CreateTopic that accepts an existing topic. If the topic has other partitions,
// replicas or settings than those in cfg, it is not changed, and the error is a
// *replication.TopicDiffersError, which lists the differences and matches ErrTopicDiffers. Settings
// that cfg leaves out are not compared. Programs that accept any topic of that name ignore this
// error; AddPartitions and AlterTopic remove the differences.
func (c *Cluster) EnsureTopic(ctx context.Context, name string, cfg topic.Config) error {
	return c.brokers.EnsureTopic(ctx, name, cfg)
}

// AddPartitions increases the number of partitions of a topic to total. Records already written
// stay where they are; keys may map to other partitions from now on. assignment, if given, lists
// the brokers of each new partition. Errors: ErrUnknownTopic, replication.ErrInvalidPartitions
// (total is not above the present number), replication.ErrInvalidAssignment,
// replication.ErrPolicyViolation, replication.ErrClosed, ctx's.
func (c *Cluster) AddPartitions(ctx context.Context, name string, total int, assignment ...[]int32) error {
	return c.brokers.AddPartitions(ctx, name, total, assignment...)
}

// AlterTopic sets configuration keys of a topic, either all or none. Keys that are not in props are
// not changed. When it returns nil the change is on stable storage, and open partitions apply it.
// Errors: ErrUnknownTopic, *topic.ConfigError, replication.ErrClosed, ctx's.
func (c *Cluster) AlterTopic(ctx context.Context, name string, props map[string]string) error {
	return c.brokers.AlterTopic(ctx, name, props)
}

// AlterTopicConfig is AlterTopic that can also unset keys, and add or remove elements of lists.
// Kafka: IncrementalAlterConfigs.
func (c *Cluster) AlterTopicConfig(ctx context.Context, name string, changes ...replication.ConfigChange) error {
	return c.brokers.AlterTopicConfig(ctx, name, changes...)
}

// DeleteTopic deletes a topic with all its records; the deletion is durable when it returns nil.
// Readers and writers get ErrUnknownTopic, or partition.ErrClosed during the deletion. Errors:
// ErrUnknownTopic, replication.ErrPolicyViolation for an internal topic, replication.ErrClosed,
// ctx's.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	return c.brokers.DeleteTopic(ctx, name)
}

// Topics describes all topics, sorted by name.
func (c *Cluster) Topics(ctx context.Context) ([]topic.Info, error) { return c.brokers.Topics(ctx) }

// Topic describes one topic: its settings, and for each partition the offsets, the size and, if it
// is offline, the cause. Errors: ErrUnknownTopic, replication.ErrClosed, ctx's.
func (c *Cluster) Topic(ctx context.Context, name string) (topic.Info, error) {
	return c.brokers.Topic(ctx, name)
}

// DeleteRecords moves the log start offsets of partitions forward to the given offsets, -1 meaning
// the high watermark, and returns the new ones. A log start offset that is already beyond the given
// offset stays. DeleteRecords waits, until ctx ends, until the new ones are on stable storage at
// the leader and at all followers whose brokers run, so that a follower that becomes leader does
// not return the deleted records. replication.Cluster.DeleteRecords documents brokers that are down
// meanwhile.
//
// The error joins the errors of failed partitions (partition.ErrOffsetOutOfRange,
// replication.ErrPolicyViolation, ErrUnknownTopic, replication.ErrNotLeader); the result holds the
// others.
func (c *Cluster) DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) (map[record.TopicPartition]int64, error) {
	return c.brokers.DeleteRecords(ctx, before)
}

// Clean runs retention and compaction immediately, on the partitions of the given topics, or of all
// topics. For each partition, sorted by topic and partition, it returns the removed and the kept
// data, with the reason. Partitions that were never written are left out. The error joins the
// errors of partitions. Errors of the call itself: ErrUnknownTopic, replication.ErrClosed, ctx's.
func (c *Cluster) Clean(ctx context.Context, topics ...string) ([]replication.PartitionClean, error) {
	return c.brokers.Clean(ctx, topics...)
}

// TimestampsAt returns for each partition the offset and the timestamp of the first record at the
// given offset or later, exact to one batch. The lag of a group in time follows from it. Offset is
// -1 if there is no such record, as when only markers of transactions follow. Only indexes and
// headers of batches are read. Errors of a partition, in OffsetResult.Err: ErrUnknownTopic,
// replication.ErrNotLeader, partition.ErrTimeout if a disk does not respond, partition's. Errors of
// the call: replication.ErrClosed, ctx's.
func (c *Cluster) TimestampsAt(ctx context.Context, from record.Offsets) (map[record.TopicPartition]partition.OffsetResult, error) {
	return c.brokers.TimestampsAt(ctx, from)
}

// PreviewClean returns the report that Clean would return now of the leader's replica of a
// partition: which segments go and stay, and why. It changes nothing. Of a compaction it has only
// the beginning, or the reason why there is none: see log.Log.Preview. A partition that was never
// written to has an empty report. Errors: ErrUnknownTopic, replication.ErrNotLeader, the disk's
// errors, replication.ErrClosed, ctx's.
func (c *Cluster) PreviewClean(ctx context.Context, tp record.TopicPartition) (log.CleanReport, error) {
	return c.brokers.PreviewClean(ctx, tp)
}

// Roll closes the active segments of the given partitions of a topic, or of all, and opens new
// ones. The next Clean can compact the closed segments, and delete each as a whole when its newest
// record is old enough. Empty active segments stay. Errors: ErrUnknownTopic, disk errors,
// replication.ErrClosed, ctx's.
func (c *Cluster) Roll(ctx context.Context, name string, partitions ...int32) error {
	return c.brokers.Roll(ctx, name, partitions...)
}

// Backup copies the running cluster to the directory dir, which must not exist or must be empty.
// The copy is the same cluster at one moment; Open opens it, on this machine or another. None of
// its committed offsets is beyond the records. Each transaction is in the copy as a whole, not at
// all, or open, and is then aborted. An interrupted backup does not open
// (replication.ErrUnfinished).
//
// Backup takes as long as reading and writing all records once. It does not block other calls;
// files that retention and compaction remove meanwhile are deleted from disk afterwards.
// replication.Cluster.Backup documents the order of copying and the errors.
func (c *Cluster) Backup(ctx context.Context, dir string) error { return c.brokers.Backup(ctx, dir) }

// Controller returns the id of the broker that is the controller, which kafka.Server.Serve serves.
func (c *Cluster) Controller() int32 { return c.brokers.Controller() }
