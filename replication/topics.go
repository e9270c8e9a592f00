package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// AddPartitions grows a topic to total partitions. Records already written stay where they are;
// where keys go changes from now on. They have as many replicas as the topic's first partition, or
// will have when it is reassigned. The controller places them, unless assignment says, for each of
// them, which brokers have its replicas. Errors: ErrUnknownTopic,
// ErrInvalidPartitions (not more than there are), ErrInvalidAssignment, ErrPolicyViolation,
// ErrClosed, ctx's.
func (c *Cluster) AddPartitions(ctx context.Context, name string, total int, assignment ...[]int32) error {
	if err := c.change(ctx, c.addPartitions(name, total, assignment)); err != nil {
		return fmt.Errorf("add partitions to %q: %w", name, err)
	}
	return nil
}

func (c *Cluster) addPartitions(name string, total int, assignment [][]int32) decision {
	return func(img *image.Image) ([]metarecord.Record, error) {
		return img.AddPartitions(image.Growth{Topic: name, Total: total, Assignment: assignment}, c.limits())
	}
}

// limits are what the cluster was opened with.
func (c *Cluster) limits() image.Limits {
	return image.Limits{Partitions: c.cfg.MaxPartitions, Factor: c.cfg.Defaults.ReplicationFactor, Policy: c.rules}
}

// DeleteTopic deletes a topic with all its records, for good when it returns nil. Its directories
// have another name then, and are deleted after the broker's log.segment.delete.delay.ms, or by the
// next open. Whoever reads or writes it gets ErrUnknownTopic, or partition.ErrClosed if caught in
// the middle. Errors: ErrUnknownTopic, ErrPolicyViolation for an internal topic, ErrClosed, ctx's.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) { return img.DeleteTopic(name) })
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	return nil
}

// Topics describes all topics, sorted by name.
func (c *Cluster) Topics(ctx context.Context) ([]topic.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return nil, ErrClosed
	}
	ts := slices.Collect(maps.Values(c.image.Topics))
	c.mu.RUnlock()
	slices.SortFunc(ts, func(a, b *image.Topic) int { return strings.Compare(a.Name, b.Name) })
	infos := make([]topic.Info, len(ts))
	for i, t := range ts {
		infos[i] = c.info(t)
	}
	return infos, nil
}

// Topic describes one topic. Errors: ErrUnknownTopic, ErrClosed, ctx's.
func (c *Cluster) Topic(ctx context.Context, name string) (topic.Info, error) {
	if err := ctx.Err(); err != nil {
		return topic.Info{}, err
	}
	c.mu.RLock()
	t, closed := c.image.Topics[name], c.closed
	var unknown error
	if t == nil && !closed {
		unknown = unknownTopic(c.image, name)
	}
	c.mu.RUnlock()
	switch {
	case closed:
		return topic.Info{}, ErrClosed
	case t == nil:
		return topic.Info{}, unknown
	}
	return c.info(t), nil
}

func (c *Cluster) info(t *image.Topic) topic.Info {
	s := c.settings(t)
	info := topic.Info{Name: t.Name, ID: t.ID, Internal: topic.IsInternal(t.Name), Settings: s, Partitions: make([]topic.PartitionInfo, len(t.Partitions))}
	for i, p := range t.Partitions {
		pi := topic.PartitionInfo{Partition: int32(i), Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: slices.Clone(p.Replicas), ISR: slices.Clone(p.ISR)}
		r, err := c.replicaOf(record.TopicPartition{Topic: t.Name, Partition: int32(i)}, t.ID, p.Leader)
		pi.Err = err
		if r != nil {
			part, err := r.state()
			pi.Err = err
			if part != nil {
				st := part.Stats()
				pi.LogStartOffset, pi.HighWatermark, pi.LogEndOffset = st.LogStartOffset, st.HighWatermark, st.LogEndOffset
				pi.SizeBytes = st.SizeBytes
			}
		}
		info.Partitions[i] = pi
	}
	return info
}
