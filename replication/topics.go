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

// AddPartitions increases the number of a topic's partitions to total. Existing records are not
// moved, but the partition of a key may change for later records. The new partitions have as many
// replicas as the topic's first partition has, or will have after its reassignment. The controller
// places them, unless assignment has the replicas' brokers for each of them. Errors:
// ErrUnknownTopic, ErrInvalidPartitions (total is not above the present number),
// ErrInvalidAssignment, ErrPolicyViolation, ErrClosed, and the context's error.
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

// limits returns the limits that the cluster was opened with.
func (c *Cluster) limits() image.Limits {
	return image.Limits{Partitions: c.cfg.MaxPartitions, Factor: c.cfg.Defaults.ReplicationFactor, Policy: c.rules}
}

// DeleteTopic deletes a topic with all its records, permanently when it returns nil. Its
// directories are renamed. They are deleted after the broker's log.segment.delete.delay.ms, or by
// the next open. Readers and writers get ErrUnknownTopic, or partition.ErrClosed if their call was
// in progress. Errors: ErrUnknownTopic, ErrPolicyViolation for an internal topic, ErrClosed, and
// the context's error.
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

// Topic describes one topic. Errors: ErrUnknownTopic, ErrClosed, and the context's error.
func (c *Cluster) Topic(ctx context.Context, name string) (topic.Info, error) {
	if err := ctx.Err(); err != nil {
		return topic.Info{}, err
	}
	c.mu.RLock()
	t, closed := c.image.Topics[name], c.closed
	var unknown error
	if t == nil && !closed {
		unknown = c.unknownTopic(c.image, name)
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
		if pi.Err = err; p.Leader < 0 {
			pi.Err = c.leaderless(record.TopicPartition{Topic: t.Name, Partition: int32(i)})
		}
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
