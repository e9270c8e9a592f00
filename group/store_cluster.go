package group

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// ClusterStore returns the Store of a cluster in this process. The cluster must outlive its
// coordinator.
func ClusterStore(c *replication.Cluster) Store { return &clusterStore{c} }

type clusterStore struct{ *replication.Cluster }

// offsetsTopicProperties are Kafka's for this topic; and a commit is durable when it returns,
// whatever the cluster's defaults say.
var offsetsTopicProperties = map[string]string{
	"cleanup.policy":   "compact",
	"compression.type": "producer",
	"segment.bytes":    "104857600",
	"flush.messages":   "1",
}

// OffsetsTopic implements Store.
func (s *clusterStore) OffsetsTopic(ctx context.Context, create int32) (int32, error) {
	if create > 0 {
		if err := s.EnsureTopic(ctx, offsets.Topic, topic.Config{Partitions: int(create), Properties: offsetsTopicProperties}); err != nil {
			return 0, err
		}
	}
	md, err := s.Metadata(ctx, offsets.Topic)
	if err != nil {
		return 0, err
	}
	t := md.Topics[offsets.Topic]
	if create == 0 && errors.Is(t.Err, replication.ErrUnknownTopic) {
		return 0, nil
	}
	return int32(len(t.Partitions)), t.Err
}

// OffsetsLeader implements Store.
func (s *clusterStore) OffsetsLeader(p int32) (broker, epoch int32, err error) {
	return s.LeaderOf(record.TopicPartition{Topic: offsets.Topic, Partition: p})
}

// OffsetsLog implements Store.
func (s *clusterStore) OffsetsLog(p int32) (OffsetsLog, error) {
	return &clusterLog{s.Cluster, record.TopicPartition{Topic: offsets.Topic, Partition: p}}, nil
}

// Topics implements Store.
func (s *clusterStore) Topics(ctx context.Context, names ...string) (Topics, error) {
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

// WaitTopics implements Store.
func (s *clusterStore) WaitTopics(ctx context.Context, after int64) (int64, error) {
	return s.WaitMetadata(ctx, after)
}

// ListOffsets implements Store.
func (s *clusterStore) ListOffsets(ctx context.Context, tps []record.TopicPartition, at partition.OffsetSpec) (record.Offsets, error) {
	ask := make(map[record.TopicPartition]partition.OffsetSpec, len(tps))
	for _, tp := range tps {
		ask[tp] = at
	}
	got, err := s.Cluster.ListOffsets(ctx, ask, partition.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	out := make(record.Offsets, len(got))
	var later []record.TopicPartition // than all records
	for tp, r := range got {
		switch {
		case r.Err != nil:
		case r.Offset < 0:
			later = append(later, tp)
		default:
			out[tp] = r.Offset
		}
	}
	if len(later) > 0 && at != partition.Latest {
		ends, err := s.ListOffsets(ctx, later, partition.Latest)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, ends)
	}
	return out, nil
}

// clusterLog is one partition of the offsets topic, wherever its leader is.
type clusterLog struct {
	c  *replication.Cluster
	tp record.TopicPartition
}

// Append implements OffsetsLog. There is no timeout: an append that was given up and then succeeds
// would be in the log unknown to its coordinator.
func (l *clusterLog) Append(batch []byte, done func(error)) {
	l.c.Produce(&partition.ProduceRequest{TopicPartition: l.tp, Batch: batch, Acks: record.AcksAll, Done: func(r partition.ProduceResult) {
		done(appendError(r.Err))
	}})
}

// appendError maps the outcome of an append as Kafka does: what is missing may come back here, a
// broker in trouble hands the group on.
func appendError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, partition.ErrNotEnoughReplicas), errors.Is(err, partition.ErrNotEnoughReplicasAfterAppend), errors.Is(err, partition.ErrTimeout),
		errors.Is(err, replication.ErrUnknownTopic):
		return fmt.Errorf("%w: %w", ErrCoordinatorNotAvailable, err)
	case errors.Is(err, partition.ErrRecordTooLarge), errors.Is(err, partition.ErrBatchTooLarge):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrNotCoordinator, err)
}

// Read implements OffsetsLog.
func (l *clusterLog) Read(dst []byte, from int64, max int) ([]byte, error) {
	resp, err := l.c.Fetch(context.Background(), &partition.FetchRequest{
		Partitions: []partition.FetchPartition{{TopicPartition: l.tp, Offset: from, MaxBytes: max, CurrentLeaderEpoch: -1}},
		Isolation:  partition.ReadUncommitted,
	})
	if err != nil {
		return nil, err
	}
	if err := resp.Partitions[0].Err; err != nil {
		return nil, err
	}
	return append(dst, resp.Partitions[0].Bytes...), nil
}

// Bounds implements OffsetsLog.
func (l *clusterLog) Bounds() (start, end int64, err error) {
	for spec, at := range map[partition.OffsetSpec]*int64{partition.Earliest: &start, partition.Latest: &end} {
		got, err := l.c.ListOffsets(context.Background(), map[record.TopicPartition]partition.OffsetSpec{l.tp: spec}, partition.ReadUncommitted)
		if err != nil {
			return 0, 0, err
		}
		if r := got[l.tp]; r.Err != nil {
			return 0, 0, r.Err
		} else {
			*at = r.Offset
		}
	}
	return start, end, nil
}
