package replication

import (
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// nodeMetadata is the metadata as a broker uses it. A setting may have another value on each.
type nodeMetadata struct {
	c      *Cluster
	broker int32
}

// assignment has the metadata that a broker needs to host a partition.
type assignment struct {
	settings    topic.Settings
	leaderEpoch int32
}

// topicOf returns the topic of a partition, nil if the partition is not there, or no longer.
func (m nodeMetadata) topicOf(tp record.TopicPartition, id topic.ID) *image.Topic {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	if t := m.c.image.ByID[id]; t != nil && int(tp.Partition) < len(t.Partitions) {
		return t
	}
	return nil
}

// isMissing reports whether the directory of the broker's replica was missing when it looked last.
func (m nodeMetadata) isMissing(r *replica) bool {
	t := m.topicOf(r.tp, r.id)
	return t != nil && slices.Contains(t.Partitions[r.tp.Partition].Missing(), m.broker)
}

// assignment returns the assignment of a partition; ok is false if the partition does not exist, or
// no longer does.
func (m nodeMetadata) assignment(tp record.TopicPartition, id topic.ID) (a assignment, ok bool) {
	t := m.topicOf(tp, id)
	if t == nil {
		return a, false
	}
	return assignment{settings: m.settings(t), leaderEpoch: t.Partitions[tp.Partition].LeaderEpoch}, true
}

// leaderEpoch is assignment without the settings, which are slower; several reports whether there
// are more replicas than this one.
func (m nodeMetadata) leaderEpoch(tp record.TopicPartition, id topic.ID) (epoch int32, several, ok bool) {
	t := m.topicOf(tp, id)
	if t == nil {
		return 0, false, false
	}
	p := &t.Partitions[tp.Partition]
	return p.LeaderEpoch, isSeveral(p), true
}

// nextEpoch returns the epoch in which a partition that has no leader, and one replica, will have
// the next one; ok is false if it has one.
func (m nodeMetadata) nextEpoch(tp record.TopicPartition, id topic.ID) (epoch int32, ok bool) {
	t := m.topicOf(tp, id)
	if t == nil || t.Partitions[tp.Partition].Leader >= 0 || isSeveral(&t.Partitions[tp.Partition]) {
		return 0, false
	}
	return t.Partitions[tp.Partition].LeaderEpoch + 1, true
}

// assigned reports whether the broker has a replica of a partition.
func (m nodeMetadata) assigned(tp record.TopicPartition, id topic.ID) bool {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	t := m.c.image.Topics[tp.Topic]
	return t != nil && t.ID == id && int(tp.Partition) < len(t.Partitions) &&
		slices.Contains(t.Partitions[tp.Partition].Replicas, m.broker)
}

// ownerOf returns the topic of that name, if the broker has a replica of the partition.
func (m nodeMetadata) ownerOf(tp record.TopicPartition) (id topic.ID, ok bool) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	t := m.c.image.Topics[tp.Topic]
	if t == nil || int(tp.Partition) >= len(t.Partitions) || !slices.Contains(t.Partitions[tp.Partition].Replicas, m.broker) {
		return id, false
	}
	return t.ID, true
}

// hadNamesake reports whether a topic of that name was deleted of which a broker may have a
// directory still.
func (m nodeMetadata) hadNamesake(name string) bool {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	for _, removed := range m.c.image.Removed {
		if removed == name {
			return true
		}
	}
	return false
}

// settings returns the effective settings of a topic on the broker. The configuration was validated
// when it was written; keys that only a later version rejects are left out with a warning.
func (m nodeMetadata) settings(t *image.Topic) topic.Settings {
	defaults := m.defaults()
	s, err := topic.Parse(t.Config, defaults)
	if err == nil {
		return s
	}
	m.c.logger.Warn("topic configuration is not valid, defaults are used", slog.String("topic", t.Name), slog.Any("err", err))
	s, _ = topic.Parse(nil, defaults)
	return s
}

// defaults returns the default settings of topics, by the topic's keys. The map must not be written
// to.
func (m nodeMetadata) defaults() map[string]string {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	return m.c.defaultsWith(m.c.image.BrokerConfigs, m.broker)
}

// deleteDelay returns the broker's own file.delete.delay.ms: the setting of a deleted topic is
// deleted too, as in Kafka.
func (m nodeMetadata) deleteDelay() time.Duration {
	s, _ := topic.Parse(nil, m.defaults())
	return s.Partition(partition.Config{}).Log.DeleteDelay
}

// wasRemoved reports whether a topic of that id was deleted.
func (m nodeMetadata) wasRemoved(id topic.ID) bool {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	return m.c.image.Removed[id] != ""
}
