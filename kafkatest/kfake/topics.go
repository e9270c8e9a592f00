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

// TopicInfo describes a topic as it was when it was asked for. The caller owns it.
type TopicInfo struct {
	Topic       string
	TopicID     [16]byte
	NumReplicas int                // of each partition
	Configs     map[string]*string // what was set on the topic, not what it has by default
}

// PartitionInfo describes a partition as it was when it was asked for. The caller owns it.
type PartitionInfo struct {
	Partition        int32
	HighWatermark    int64 // exclusive
	LastStableOffset int64 // exclusive: no open transaction below it
	LogStartOffset   int64 // the first offset that can be read
	Epoch            int32 // grows each time another node leads
	MaxTimestamp     int64 // of all records, in ms since the Unix epoch; -1: there are none
	NumBytes         int64
	Leader           int32 // -1: nobody leads
}

// TopicInfo returns what there is to know of a topic, nil if there is none of that name.
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

// TopicIDInfo is TopicInfo by topic id.
func (c *Cluster) TopicIDInfo(id [16]byte) *TopicInfo {
	name, ok := c.inside().TopicName(id)
	if !ok {
		return nil
	}
	return c.TopicInfo(name)
}

// PartitionInfo returns what there is to know of a partition, nil if there is no such partition.
func (c *Cluster) PartitionInfo(topic string, partition int32) *PartitionInfo {
	all := c.PartitionInfos(topic)
	if partition < 0 || int(partition) >= len(all) {
		return nil
	}
	return all[partition]
}

// PartitionInfos returns what there is to know of a topic's partitions, in their order, nil if
// there is no such topic.
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

// CreateTopic creates a topic with so many partitions (below 1: DefaultNumPartitions) and these
// settings, nil for none. It is not a request: no control function, fault or ACL is about it. It
// returns a *kerr.Error where a client would be answered one.
func (c *Cluster) CreateTopic(topicName string, partitions int32, configs map[string]string) error {
	ctx, cancel := c.context()
	defer cancel()
	return answered(c.inside().Cluster.CreateTopic(ctx, topicName, topic.Config{Partitions: max(int(partitions), 0), Properties: configs}))
}

// DeleteTopic deletes a topic, and what groups have committed for it, as a client's request does.
// Otherwise it is as CreateTopic.
func (c *Cluster) DeleteTopic(topic string) error {
	ctx, cancel := c.context()
	defer cancel()
	return answered(c.inside().Cluster.DeleteTopic(ctx, topic))
}

// DeleteRecords deletes the records of a partition below an offset; -1: all that are committed.
// Otherwise it is as CreateTopic.
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

// answered returns the error that a client would be told, as far as there is a name for it.
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

// Compact runs retention and compaction on all topics now, instead of at their next turn. Of keys
// that are there several times the newest record stays, tombstones go after delete.retention.ms. As
// in Kafka what is in the segment that is written to stays as it is; it is closed before, here.
func (c *Cluster) Compact() { c.clean("compact") }

// ApplyRetention deletes what is beyond retention.ms and retention.bytes now. Whole segments go, as
// in Kafka; the one that is written to is closed before. Topics that are compacted are compacted,
// too.
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
