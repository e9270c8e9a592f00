package share

import (
	"context"
	"maps"
	"strconv"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/shardtopic"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/replication"
)

// states implements coordinator.Store on the topic __share_group_state.
type states struct {
	topic shardtopic.Topic
	shape TopicConfig
}

// defaultMinInSync is the default of Topic.MinInSync, if there are as many replicas.
const defaultMinInSync = 2

// newStates returns the topic, or an error if it cannot be created with that many replicas.
func newStates(c *replication.Cluster, shape TopicConfig) (*states, error) {
	s := &states{topic: shardtopic.Topic{Cluster: c, Name: sharelog.Topic}, shape: shape}
	if err := s.topic.MayCreate(shape.Replicas); err != nil {
		return nil, err
	}
	return s, nil
}

// stateTopicProperties are Kafka's for this topic. No record expires, and compaction would keep
// only one of the updates after a snapshot. Old records are deleted from the start. A change is
// durable when it is confirmed, independent of the cluster's defaults.
var stateTopicProperties = map[string]string{
	"cleanup.policy":                 "delete",
	"retention.ms":                   "-1",
	"retention.bytes":                "-1",
	"compression.type":               "uncompressed",
	"segment.bytes":                  "104857600",
	"unclean.leader.election.enable": "false",
	"flush.messages":                 "1",
}

// Partitions implements coordinator.Store.
func (s *states) Partitions(ctx context.Context, create bool) (int32, error) {
	if !create {
		return s.topic.Partitions(ctx)
	}
	t := s.topic
	t.Properties = maps.Clone(stateTopicProperties)
	t.Properties["min.insync.replicas"] = strconv.Itoa(s.minInSync())
	return t.Create(ctx, s.shape.Partitions, s.shape.Replicas)
}

func (s *states) minInSync() int {
	if s.shape.MinInSync > 0 {
		return s.shape.MinInSync
	}
	replicas := s.shape.Replicas
	if replicas == 0 {
		replicas = s.topic.DefaultReplicas()
	}
	return max(1, min(defaultMinInSync, replicas))
}

// Leader implements coordinator.Store.
func (s *states) Leader(p int32) (led coordinator.Leadership, err error) {
	led.Broker, led.Epoch, err = s.topic.Leader(p)
	return led, err
}

// Log implements coordinator.Store.
func (s *states) Log(p int32, led coordinator.Leadership) (coordinator.Log, error) {
	return s.topic.Log(p, led.Epoch), nil
}
