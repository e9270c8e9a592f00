package replication

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// ListOffsets finds offsets by meaning or by time, at the leaders. Each partition has its own
// error: ErrUnknownTopic, ErrNotLeader, those of partition.ListOffset. The call itself fails with
// ctx's error and ErrClosed only.
func (c *Cluster) ListOffsets(ctx context.Context, specs map[record.TopicPartition]partition.OffsetSpec, isolation partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	return c.listOffsets(ctx, offsetSpecs{specs, isolation}, anyBroker)
}

// offsetSpecs is what a caller of ListOffsets asks for.
type offsetSpecs struct {
	at        map[record.TopicPartition]partition.OffsetSpec
	isolation partition.Isolation
}

func (c *Cluster) listOffsets(ctx context.Context, specs offsetSpecs, asked int32) (map[record.TopicPartition]partition.OffsetResult, error) {
	results := make(map[record.TopicPartition]partition.OffsetResult, len(specs.at))
	for tp, spec := range specs.at {
		if err := c.live(ctx); err != nil {
			return nil, err
		}
		res, err := c.listOffset(tp, spec, specs.isolation, asked)
		if err != nil {
			res = partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1, Err: err}
		}
		results[tp] = res
	}
	return results, nil
}

func (c *Cluster) listOffset(tp record.TopicPartition, spec partition.OffsetSpec, isolation partition.Isolation, asked int32) (partition.OffsetResult, error) {
	r, err := c.leaderReplica(tp, asked)
	if err != nil {
		return partition.OffsetResult{}, err
	}
	p, err := r.state()
	if err != nil {
		return partition.OffsetResult{}, err
	}
	if p != nil {
		return p.ListOffset(spec, isolation)
	}
	_, meta, err := c.find(tp)
	res := partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}
	if spec == partition.Earliest || spec == partition.Latest {
		res.Offset, res.LeaderEpoch = 0, meta.LeaderEpoch
	}
	return res, err
}

// DeleteRecords moves the start of partitions forward to the given offsets, -1 meaning the high
// watermark, and returns the new starts; a start that is beyond the offset already stays. It is on
// stable storage when the call returns. The error joins those of the partitions that failed
// (partition.ErrOffsetOutOfRange, ErrPolicyViolation, ErrUnknownTopic, ErrNotLeader); the result
// holds the others.
func (c *Cluster) DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) (map[record.TopicPartition]int64, error) {
	return c.deleteBefore(ctx, before, anyBroker)
}

func (c *Cluster) deleteBefore(ctx context.Context, before map[record.TopicPartition]int64, asked int32) (map[record.TopicPartition]int64, error) {
	starts := make(map[record.TopicPartition]int64, len(before))
	var errs []error
	for tp, offset := range before {
		var start int64
		err := c.await(ctx, func() (err error) {
			start, err = c.deleteRecords(tp, offset, asked)
			return err
		})
		// Start may still be written to.
		if cause := ctx.Err(); cause != nil || errors.Is(err, ErrClosed) {
			return nil, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete records of %s-%d: %w", tp.Topic, tp.Partition, err))
			continue
		}
		starts[tp] = start
	}
	return starts, errors.Join(errs...)
}

func (c *Cluster) deleteRecords(tp record.TopicPartition, before int64, asked int32) (int64, error) {
	r, err := c.leaderReplica(tp, asked)
	if err != nil {
		return 0, err
	}
	p, err := r.state()
	switch {
	case err != nil:
		return 0, err
	case p != nil:
		return p.DeleteRecords(before)
	}
	info, err := c.Topic(context.Background(), tp.Topic) // it was never written
	switch s := info.Settings; {
	case err != nil:
		return 0, err
	case s.Compacted() && !s.Deleted():
		return 0, fmt.Errorf("%w: the topic is only compacted", ErrPolicyViolation)
	case before > 0 || before < -1:
		return 0, partition.ErrOffsetOutOfRange
	}
	return 0, nil
}
