package group

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/shardtopic"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// ClusterStore returns the Store of a cluster in this process. The cluster must outlive its
// coordinator.
func ClusterStore(c *replication.Cluster) Store {
	return &clusterStore{c, shardtopic.Topic{Cluster: c, Name: offsets.Topic, Properties: offsetsTopicProperties}}
}

type clusterStore struct {
	*replication.Cluster
	topic shardtopic.Topic
}

// offsetsTopicProperties are Kafka's properties of the offsets topic, and flush.messages=1: a
// commit is durable when it returns, whatever the cluster's defaults are.
var offsetsTopicProperties = map[string]string{
	"cleanup.policy":   "compact",
	"compression.type": "producer",
	"segment.bytes":    "104857600",
	"flush.messages":   "1",
}

// mayCreate returns an error if there are fewer brokers than replicas, with which the offsets topic
// is to be created; 0 means the default. Kafka's broker detects it only when a group looks for its
// coordinator, and then each time.
func (s *clusterStore) mayCreate(replicas int) error {
	if err := s.topic.MayCreate(replicas); err != nil {
		return fmt.Errorf("OffsetsReplicas: %w", err)
	}
	return nil
}

// OffsetsTopic implements Store.
func (s *clusterStore) OffsetsTopic(ctx context.Context, create OffsetsShape) (int32, error) {
	if create.Partitions > 0 {
		return s.topic.Create(ctx, create.Partitions, create.Replicas)
	}
	return s.topic.Partitions(ctx)
}

// OffsetsLeader implements Store.
func (s *clusterStore) OffsetsLeader(p int32) (broker, epoch int32, err error) {
	return s.topic.Leader(p)
}

// OffsetsLog implements Store.
func (s *clusterStore) OffsetsLog(p, epoch int32) (OffsetsLog, error) {
	return s.topic.Log(p, epoch), nil
}

// Topics implements Store.
func (s *clusterStore) Topics(ctx context.Context, names ...string) (Topics, error) {
	if len(names) == 0 {
		return s.allTopics(ctx)
	}
	md, err := s.Metadata(ctx, names...)
	if err != nil {
		return Topics{}, err
	}
	out := Topics{Version: md.Version, Topics: make(map[string]TopicInfo, len(md.Topics))}
	for name, t := range md.Topics {
		if t.Err == nil {
			out.Topics[name] = TopicInfo{ID: t.ID, Partitions: int32(len(t.Partitions))}
		}
	}
	return out, nil
}

// allTopics is Topics for all topics: the watcher calls it after every change of the metadata.
func (s *clusterStore) allTopics(ctx context.Context) (out Topics, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	version, shapes, err := s.TopicShapes()
	if err != nil {
		return out, err
	}
	out = Topics{Version: version, Topics: make(map[string]TopicInfo, len(shapes))}
	for _, t := range shapes {
		out.Topics[t.Name] = TopicInfo{ID: t.ID, Partitions: int32(t.Partitions)}
	}
	return out, nil
}

// WaitTopics implements Store.
func (s *clusterStore) WaitTopics(ctx context.Context, after int64) (int64, error) {
	return s.WaitMetadata(ctx, after)
}

// ListOffsets implements Store.
func (s *clusterStore) ListOffsets(ctx context.Context, tps []record.TopicPartition, at partition.OffsetSpec) (out record.Offsets, unknown map[record.TopicPartition]error, err error) {
	ask := make(map[record.TopicPartition]partition.OffsetSpec, len(tps))
	for _, tp := range tps {
		ask[tp] = at
	}
	got, err := s.Cluster.ListOffsets(ctx, ask, partition.ReadUncommitted)
	if err != nil {
		return nil, nil, err
	}
	out, unknown = make(record.Offsets, len(got)), make(map[record.TopicPartition]error)
	var later []record.TopicPartition // than all records
	for tp, r := range got {
		switch {
		case errors.Is(r.Err, replication.ErrUnknownTopic):
		case r.Err != nil:
			unknown[tp] = r.Err
		case r.Offset < 0:
			later = append(later, tp)
		default:
			out[tp] = r.Offset
		}
	}
	if len(later) > 0 && at != partition.Latest {
		ends, offline, err := s.ListOffsets(ctx, later, partition.Latest)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(out, ends)
		maps.Copy(unknown, offline)
	}
	return out, unknown, nil
}
