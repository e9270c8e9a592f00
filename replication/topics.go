package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// AddPartitions grows a topic to total partitions. Records already written stay where they are;
// where keys go changes from now on. The controller places the new partitions, unless assignment
// says, for each of them, which brokers have its replicas. Errors: ErrUnknownTopic,
// ErrInvalidPartitions (not more than there are), ErrInvalidAssignment, ErrPolicyViolation,
// ErrClosed, ctx's.
func (c *Cluster) AddPartitions(ctx context.Context, name string, total int, assignment ...[]int32) error {
	if err := c.change(ctx, c.addPartitions(name, total, assignment)); err != nil {
		return fmt.Errorf("add partitions to %q: %w", name, err)
	}
	return nil
}

func (c *Cluster) addPartitions(name string, total int, assignment [][]int32) decision {
	return func(img *image) ([]metarecord.Record, error) {
		t := img.topics[name]
		if t == nil {
			return nil, img.unknownTopic(name)
		}
		have := len(t.partitions)
		switch {
		case total <= have:
			return nil, fmt.Errorf("%w: %d, it has %d", ErrInvalidPartitions, total, have)
		case total-have > maxNewPartitions:
			return nil, fmt.Errorf("%w: %d new partitions, at most %d are created at once", ErrPolicyViolation, total-have, maxNewPartitions)
		}
		if err := c.room(img, total-have); err != nil {
			return nil, err
		}
		factor := c.cfg.Defaults.ReplicationFactor
		if have > 0 {
			factor = len(t.partitions[0].replicas)
		}
		turn := img.partitions
		if have > 0 {
			turn = img.turnAfter(t.partitions[have-1])
		}
		replicas, err := img.assign(placing{turn: turn, partitions: total - have, factor: factor, assignment: assignment})
		if err != nil {
			return nil, err
		}
		return img.appendPartitions(nil, t.id, have, replicas), nil
	}
}

// room refuses more partitions than the cluster may have.
func (c *Cluster) room(img *image, more int) error {
	if img.partitions+more > c.cfg.MaxPartitions {
		return fmt.Errorf("%w: the cluster would have %d partitions, at most %d are allowed", ErrPolicyViolation, img.partitions+more, c.cfg.MaxPartitions)
	}
	return nil
}

// DeleteTopic deletes a topic with all its records, for good when it returns nil. Its directories
// have another name then, and are deleted after the broker's log.segment.delete.delay.ms, or by the
// next open. Whoever reads or writes it gets ErrUnknownTopic, or partition.ErrClosed if caught in
// the middle. Errors: ErrUnknownTopic, ErrPolicyViolation for an internal topic, ErrClosed, ctx's.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	err := c.change(ctx, func(img *image) ([]metarecord.Record, error) {
		t := img.topics[name]
		switch {
		case t == nil:
			return nil, img.unknownTopic(name)
		case topic.IsInternal(name):
			return nil, fmt.Errorf("%w: it holds the state of a coordinator", ErrPolicyViolation)
		}
		return []metarecord.Record{&metarecord.RemoveTopic{ID: t.id}}, nil
	})
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
	ts := slices.Collect(maps.Values(c.image.topics))
	c.mu.RUnlock()
	slices.SortFunc(ts, func(a, b *topicImage) int { return strings.Compare(a.name, b.name) })
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
	t, closed := c.image.topics[name], c.closed
	var unknown error
	if t == nil && !closed {
		unknown = c.image.unknownTopic(name)
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

func (c *Cluster) info(t *topicImage) topic.Info {
	s := c.settings(t)
	info := topic.Info{Name: t.name, ID: t.id, Internal: topic.IsInternal(t.name), Settings: s, Partitions: make([]topic.PartitionInfo, len(t.partitions))}
	for i, p := range t.partitions {
		pi := topic.PartitionInfo{Partition: int32(i), Leader: p.leader, LeaderEpoch: p.leaderEpoch, Replicas: slices.Clone(p.replicas), ISR: slices.Clone(p.isr)}
		r, err := c.replicaOf(record.TopicPartition{Topic: t.name, Partition: int32(i)}, t.id, p.leader)
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
