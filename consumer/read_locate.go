package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// locate finds the partitions to read, with their start and end offsets.
func (r *reader) locate(ctx context.Context) error {
	md, version, err := r.metadata(ctx)
	if err != nil {
		return fmt.Errorf("consumer: read %s: %w", r.cfg.Topic, err)
	}
	r.version, r.id, r.known = version, md.ID, len(md.Partitions)
	wanted := slices.Clone(r.cfg.Partitions)
	if wanted == nil {
		for p := range md.Partitions {
			wanted = append(wanted, int32(p))
		}
	}
	slices.Sort(wanted)
	for _, p := range slices.Compact(wanted) {
		if p < 0 || int(p) >= len(md.Partitions) {
			return fmt.Errorf("consumer: read %s-%d: %w", r.cfg.Topic, p, replication.ErrUnknownTopic)
		}
		r.parts = append(r.parts, newReadPart(record.TopicPartition{Topic: r.cfg.Topic, Partition: p}, 0, 0))
	}
	if err := r.place(ctx, r.parts, r.cfg.From.spec()); err != nil {
		return err
	}
	r.parts = slices.DeleteFunc(r.parts, r.finished)
	return r.sameTopic(ctx)
}

// metadata returns the metadata of the topic and their version.
func (r *reader) metadata(ctx context.Context) (t replication.TopicMetadata, version int64, err error) {
	err = retry(ctx, func() error {
		md, err := r.b.Metadata(ctx, r.cfg.Topic)
		if err != nil {
			return err
		}
		t, version = md.Topics[r.cfg.Topic], md.Version
		return t.Err
	})
	return t, version, err
}

// sameTopic returns ErrTopicReplaced unless the topic still has the located id. Ids are never
// reused, so results for the topic's name since locate are of this topic.
func (r *reader) sameTopic(ctx context.Context) error {
	_, _, err := r.again(ctx)
	return err
}

// again is metadata for the topic that was located.
func (r *reader) again(ctx context.Context) (t replication.TopicMetadata, version int64, err error) {
	t, version, err = r.metadata(ctx)
	if errors.Is(err, replication.ErrUnknownTopic) && !retriable.Final(err) || err == nil && t.ID != r.id {
		err = fmt.Errorf("%w: %s", ErrTopicReplaced, r.cfg.Topic)
	}
	return t, version, err
}

// place finds the ends of parts, and then their starts: in that order, so that records written in
// between are not read.
func (r *reader) place(ctx context.Context, parts []*readPart, from partition.OffsetSpec) error {
	ends, err := r.offsets(ctx, parts, func(*readPart) partition.OffsetSpec { return partition.Latest })
	if err != nil {
		return err
	}
	starts, err := r.offsets(ctx, parts, func(p *readPart) partition.OffsetSpec {
		switch start, ok := r.cfg.Start[p.tp]; {
		case ok && start == StartLatest:
			return partition.Latest
		case ok && start != StartReset: // an explicit offset must not be below the first record
			return partition.Earliest
		}
		return from
	})
	if err != nil {
		return err
	}
	for _, p := range parts {
		p.end = ends[p.tp]
		if p.next = starts[p.tp]; p.next < 0 { // no record is that late
			p.next = p.end
		}
		if start := r.cfg.Start[p.tp]; start > p.end {
			return &PartitionError{p.tp, start, partition.ErrOffsetOutOfRange}
		} else if start > 0 {
			p.next = max(p.next, start)
		}
	}
	return nil
}

// offsets fetches one offset of each partition. It waits while a new leader does not yet have the
// high watermark of its predecessor, and up to reportAfter for other transient errors.
func (r *reader) offsets(ctx context.Context, parts []*readPart, spec func(*readPart) partition.OffsetSpec) (record.Offsets, error) {
	query := make(map[record.TopicPartition]partition.OffsetSpec, len(parts))
	for _, p := range parts {
		query[p.tp] = spec(p)
	}
	got, err := awaitOffsets(ctx, r.b, query, r.cfg.Isolation)
	if err != nil {
		return nil, fmt.Errorf("consumer: read %s: %w", r.cfg.Topic, err)
	}
	offsets := make(record.Offsets, len(got))
	for _, p := range parts {
		res := got[p.tp]
		if res.Err != nil {
			return nil, r.failed(ctx, p, res.Err)
		}
		offsets[p.tp] = res.Offset
	}
	return offsets, nil
}

// failed returns the error of a partition, or that of its topic if the topic was deleted.
func (r *reader) failed(ctx context.Context, p *readPart, err error) error {
	if gone := r.sameTopic(ctx); gone != nil {
		return gone
	}
	return &PartitionError{p.tp, p.next, err}
}
