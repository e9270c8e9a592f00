package kfake

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// TopicInfo is a snapshot of a topic. The caller owns it.
type TopicInfo struct {
	Topic       string
	TopicID     [16]byte
	NumReplicas int                // replicas of each partition
	Configs     map[string]*string // settings that were set on the topic, without defaults
}

// PartitionInfo is a snapshot of a partition. The caller owns it.
type PartitionInfo struct {
	Partition        int32
	HighWatermark    int64 // exclusive
	LastStableOffset int64 // exclusive: no open transaction below it
	LogStartOffset   int64 // first offset that can be read
	Epoch            int32 // leader epoch: increases with each change of leader
	MaxTimestamp     int64 // largest timestamp of the records, in ms since the Unix epoch; -1: no records
	NumBytes         int64
	Leader           int32 // -1: none
}

// TopicInfo returns a snapshot of a topic, nil if the topic does not exist.
func (c *Cluster) TopicInfo(topic string) *TopicInfo {
	ctx, cancel := c.context()
	defer cancel()
	t, err := c.inside().Cluster.Topic(ctx, topic)
	if err != nil {
		return nil
	}
	info := &TopicInfo{Topic: t.Name, TopicID: t.ID, Configs: map[string]*string{}}
	if len(t.Partitions) > 0 {
		info.NumReplicas = len(t.Partitions[0].Replicas)
	}
	for key, value := range t.Settings.Explicit() {
		info.Configs[key] = &value
	}
	return info
}

// TopicIDInfo returns a snapshot of the topic with an id, nil if the topic does not exist.
func (c *Cluster) TopicIDInfo(id [16]byte) *TopicInfo {
	name, ok := c.inside().TopicName(id)
	if !ok {
		return nil
	}
	return c.TopicInfo(name)
}

// PartitionInfo returns a snapshot of a partition, nil if the partition does not exist.
func (c *Cluster) PartitionInfo(topic string, partition int32) *PartitionInfo {
	all := c.PartitionInfos(topic)
	if partition < 0 || int(partition) >= len(all) {
		return nil
	}
	return all[partition]
}

// PartitionInfos returns snapshots of all partitions of a topic, in order, nil if the topic does
// not exist.
func (c *Cluster) PartitionInfos(topic string) []*PartitionInfo {
	ctx, cancel := c.context()
	defer cancel()
	t, err := c.inside().Cluster.Topic(ctx, topic)
	if err != nil {
		return nil
	}
	infos := make([]*PartitionInfo, 0, len(t.Partitions))
	for _, p := range t.Partitions {
		info := &PartitionInfo{
			Partition: p.Partition, HighWatermark: p.HighWatermark, LastStableOffset: p.HighWatermark, LogStartOffset: p.LogStartOffset,
			Epoch: p.LeaderEpoch, MaxTimestamp: -1, NumBytes: p.SizeBytes, Leader: nodeOf(p.Leader),
		}
		tp := record.TopicPartition{Topic: topic, Partition: p.Partition}
		if replica, err := c.inside().Partition(tp); err == nil {
			info.LastStableOffset = replica.LastStableOffset()
			if newest, err := replica.ListOffset(partition.MaxTimestamp, partition.ReadUncommitted); err == nil {
				info.MaxTimestamp = newest.TimestampMs
			}
		}
		infos = append(infos, info)
	}
	return infos
}

// CreateTopic creates a topic with a number of partitions, below 1 for DefaultNumPartitions, and
// settings, nil for none. It is not a request: control functions, faults and ACLs do not apply. It
// returns a *kerr.Error if a client would get an error code.
func (c *Cluster) CreateTopic(topicName string, partitions int32, configs map[string]string) error {
	ctx, cancel := c.context()
	defer cancel()
	return answered(c.inside().Cluster.CreateTopic(ctx, topicName, topic.Config{Partitions: max(int(partitions), 0), Properties: configs}))
}

// DeleteTopic deletes a topic and the committed offsets of groups for it, as a client's request
// does. Like CreateTopic, it is not a request.
func (c *Cluster) DeleteTopic(topic string) error {
	ctx, cancel := c.context()
	defer cancel()
	return answered(c.inside().Cluster.DeleteTopic(ctx, topic))
}

// DeleteRecords deletes the records of a partition below an offset, or all committed records for
// -1. Like CreateTopic, it is not a request.
func (c *Cluster) DeleteRecords(topic string, partition int32, offset int64) error {
	ctx, cancel := c.context()
	defer cancel()
	info := c.PartitionInfo(topic, partition)
	switch {
	case info == nil:
		return kerr.UnknownTopicOrPartition
	case offset == -1:
		offset = info.HighWatermark
	}
	_, err := c.inside().DeleteRecords(ctx, map[record.TopicPartition]int64{{Topic: topic, Partition: partition}: offset})
	return answered(err)
}

// answered returns the error with the code that a client would get, or err itself without such a
// code.
func answered(err error) error {
	for _, known := range []struct {
		is   error
		code error
	}{
		{replication.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
		{replication.ErrTopicExists, kerr.TopicAlreadyExists},
		{partition.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
		{topic.ErrInvalidName, kerr.InvalidTopicException},
	} {
		if errors.Is(err, known.is) {
			return known.code
		}
	}
	if bad := (*topic.ConfigError)(nil); errors.As(err, &bad) {
		return kerr.InvalidConfig
	}
	return err
}

// Compact runs retention and compaction on all topics at once. For each key the newest record is
// kept; tombstones are deleted after delete.retention.ms. Unlike Kafka it closes the active segment
// first, so that its records are compacted too.
func (c *Cluster) Compact() { c.clean("compact") }

// ApplyRetention deletes records beyond retention.ms and retention.bytes at once, in whole segments
// as Kafka does. It closes the active segment first. Compacted topics are compacted too.
func (c *Cluster) ApplyRetention() { c.clean("apply retention") }

func (c *Cluster) clean(what string) {
	ctx, cancel := c.context()
	defer cancel()
	names := map[string]bool{}
	err := c.eachPartition(ctx, false, func(tp record.TopicPartition, _ replication.PartitionMetadata) error {
		names[tp.Topic] = true
		return nil
	})
	for name := range names {
		if err == nil {
			err = c.inside().Roll(ctx, name)
		}
		if err == nil {
			_, err = c.inside().Clean(ctx, name)
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		c.logf(LogLevelError, "%s: %v", what, err)
	}
}
