package strata

import (
	"context"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// ClusterID returns the id that the cluster got when its directory was created: 22 characters of
// base64url. A backup has the id of its original.
func (c *Cluster) ClusterID() string { return c.brokers.ClusterID() }

// CreateTopic creates a topic. When it returns nil the topic is on stable storage and can be
// written to. Its partitions get their directories when they are first written.
//
// Errors: ErrTopicExists, replication.ErrInvalidTopic (also if only '.' and '_' distinguish the
// name from an existing one), replication.ErrInvalidPartitions,
// replication.ErrInvalidReplicationFactor, replication.ErrPolicyViolation (more than 10,000
// partitions), *topic.ConfigError, replication.ErrClosed, ctx's. If ctx ends during the call the
// topic may be created all the same.
func (c *Cluster) CreateTopic(ctx context.Context, name string, cfg topic.Config) error {
	return c.brokers.CreateTopic(ctx, name, cfg)
}

// EnsureTopic is CreateTopic that is content with a topic of that name, whatever its settings.
func (c *Cluster) EnsureTopic(ctx context.Context, name string, cfg topic.Config) error {
	return c.brokers.EnsureTopic(ctx, name, cfg)
}

// AddPartitions grows a topic to total partitions. Records already written stay where they are;
// where keys go changes from now on. With an assignment it says which brokers have the replicas of
// each new partition. Errors: ErrUnknownTopic, replication.ErrInvalidPartitions (not
// more than there are), replication.ErrInvalidAssignment,
// replication.ErrPolicyViolation, replication.ErrClosed, ctx's.
func (c *Cluster) AddPartitions(ctx context.Context, name string, total int, assignment ...[]int32) error {
	return c.brokers.AddPartitions(ctx, name, total, assignment...)
}

// AlterTopic sets configuration keys of a live topic, all of them or none; keys that props does not
// name stay as they are. When it returns nil the change is on stable storage, and open partitions
// go by it. Errors: ErrUnknownTopic, *topic.ConfigError, replication.ErrClosed, ctx's.
func (c *Cluster) AlterTopic(ctx context.Context, name string, props map[string]string) error {
	return c.brokers.AlterTopic(ctx, name, props)
}

// AlterTopicConfig is AlterTopic that can also unset keys, and add to lists or take from them.
// Kafka: IncrementalAlterConfigs.
func (c *Cluster) AlterTopicConfig(ctx context.Context, name string, changes ...replication.ConfigChange) error {
	return c.brokers.AlterTopicConfig(ctx, name, changes...)
}

// DeleteTopic deletes a topic with all its records, for good when it returns nil. Whoever reads or
// writes it gets ErrUnknownTopic, or partition.ErrClosed if caught in the middle. Errors:
// ErrUnknownTopic, replication.ErrPolicyViolation for an internal topic, replication.ErrClosed,
// ctx's.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	return c.brokers.DeleteTopic(ctx, name)
}

// Topics describes all topics, sorted by name.
func (c *Cluster) Topics(ctx context.Context) ([]topic.Info, error) { return c.brokers.Topics(ctx) }

// Topic describes one topic: its settings, and of each partition the offsets, the size and, if it
// is offline, why. Errors: ErrUnknownTopic, replication.ErrClosed, ctx's.
func (c *Cluster) Topic(ctx context.Context, name string) (topic.Info, error) {
	return c.brokers.Topic(ctx, name)
}

// DeleteRecords moves the start of partitions forward to the given offsets, -1 meaning the high
// watermark, and returns the new starts; a start that is beyond the offset already stays. When it
// returns, they are on stable storage at the leader and all followers whose brokers serve, so the
// next leader among them does not show the records either; it waits for that until ctx ends. See
// replication.Cluster.DeleteRecords for who is away meanwhile. The error joins
// those of the partitions that failed (partition.ErrOffsetOutOfRange,
// replication.ErrPolicyViolation, ErrUnknownTopic, replication.ErrNotLeader); the result holds the
// others.
func (c *Cluster) DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) (map[record.TopicPartition]int64, error) {
	return c.brokers.DeleteRecords(ctx, before)
}

// Clean runs retention and compaction now, instead of at their next turn, on the partitions of the
// topics, of all if none is given, and tells for each, sorted by topic and partition, what went,
// what stayed and why. Partitions that were never written to are left out. The error joins those of
// the partitions. Errors of the call itself: ErrUnknownTopic, replication.ErrClosed, ctx's.
func (c *Cluster) Clean(ctx context.Context, topics ...string) ([]replication.PartitionClean, error) {
	return c.brokers.Clean(ctx, topics...)
}

// Roll closes the active segments of a topic's partitions, of all if none is given, and opens the
// next ones: what is closed can be compacted by the next Clean, and goes as a whole when its newest
// record is old enough. Active segments that are empty stay. Errors: ErrUnknownTopic, those of the
// disk, replication.ErrClosed, ctx's.
func (c *Cluster) Roll(ctx context.Context, name string, partitions ...int32) error {
	return c.brokers.Roll(ctx, name, partitions...)
}

// Backup copies the cluster, while it serves, to the directory dir, which must not exist or be
// empty. The copy is the same cluster, as it was at one moment: Open opens it, here or elsewhere.
// No committed offset in it points past the records, and each transaction is there as a whole, or
// not at all, or is open and will be aborted. A backup that was interrupted does not open
// (replication.ErrUnfinished). It takes as long as reading and writing all records once; nothing
// waits for that, and what retention and compaction remove meanwhile leaves the disk afterwards.
// replication.Cluster.Backup says in what order things are looked at, and which errors there are.
func (c *Cluster) Backup(ctx context.Context, dir string) error { return c.brokers.Backup(ctx, dir) }

// Controller returns the id of the broker that is controller: the one that kafka.Server.Serve
// serves.
func (c *Cluster) Controller() int32 { return c.brokers.Controller() }
