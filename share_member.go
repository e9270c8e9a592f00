package strata

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
)

// JoinShare adds a member to a share group; consumer.NewShare calls it. The first call creates the
// coordinator of share groups, whose topic is created when a record is first acquired. Errors:
// ErrUnknownTopic, share.ErrClosed after Close, and replication.ErrInvalidReplicationFactor if
// there are fewer brokers than Config.Shares.Topic.Replicas.
func (c *Cluster) JoinShare(ctx context.Context, m consumer.ShareMember) (consumer.ShareMembership, error) {
	shares, err := c.shares.coordinator()
	if err != nil {
		return nil, err
	}
	s := &shareMember{brokers: c.brokers, shares: shares, member: m}
	if _, missing, err := s.partitions(ctx); missing != nil || err != nil {
		return nil, errors.Join(missing, err)
	}
	return s, nil
}

// A shareMember implements consumer.ShareMembership.
type shareMember struct {
	brokers *replication.Cluster
	shares  *share.Coordinator
	member  consumer.ShareMember
	first   int // partition that the next Fetch begins with; used by Fetch only
}

// newPartitionsInterval is the time after which a waiting Fetch checks for new partitions.
const newPartitionsInterval = 5 * time.Second

// Fetch implements consumer.ShareMembership.
func (s *shareMember) Fetch(ctx context.Context, max int) (share.Fetched, error) {
	for {
		tps, missing, err := s.partitions(ctx)
		switch {
		case err != nil:
			return share.Fetched{}, err
		case len(tps) == 0:
			return share.Fetched{}, missing
		}
		s.first++
		k := s.first % len(tps)
		got, err := s.fetch(ctx, share.FetchRequest{Group: s.member.Group, Member: s.member.MemberID, Partitions: append(tps[k:len(tps):len(tps)], tps[:k]...),
			MaxRecords: max, BeginLater: true, Reset: s.member.Reset, Isolation: s.member.Isolation})
		switch {
		case err == nil:
			return got, nil
		case ctx.Err() != nil:
			return share.Fetched{}, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			continue
		case errors.Is(err, ErrUnknownTopic): // topics were deleted meanwhile, and perhaps created again
			if now, _, again := s.partitions(ctx); again == nil && len(now) > 0 && !slices.Equal(now, tps) {
				continue
			}
		}
		return share.Fetched{}, err
	}
}

// fetch waits for records of the given partitions for at most newPartitionsInterval.
func (s *shareMember) fetch(ctx context.Context, req share.FetchRequest) (share.Fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, newPartitionsInterval)
	defer cancel()
	return s.shares.Fetch(ctx, req)
}

// partitions returns the existing partitions of all topics, and the reason why others are missing.
func (s *shareMember) partitions(ctx context.Context) (all []share.TopicPartition, missing, err error) {
	md, err := s.brokers.Metadata(ctx, s.member.Topics...)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range s.member.Topics {
		t := md.Topics[name]
		if t.Err != nil {
			missing = errors.Join(missing, fmt.Errorf("strata: topic %q: %w", name, t.Err))
			continue
		}
		for p := range t.Partitions {
			all = append(all, share.TopicPartition{TopicPartition: record.TopicPartition{Topic: name, Partition: int32(p)}, TopicID: t.ID})
		}
	}
	return all, missing, nil
}

// Begin implements consumer.ShareMembership.
func (s *shareMember) Begin(ctx context.Context, tp share.TopicPartition, first, last int64) error {
	return s.shares.Begin(ctx, s.member.Group, s.member.MemberID, tp, first, last)
}

// Acknowledge implements consumer.ShareMembership.
func (s *shareMember) Acknowledge(ctx context.Context, tp share.TopicPartition, acks []share.Ack) (stored func(context.Context) error, err error) {
	return s.shares.Submit(ctx, s.member.Group, s.member.MemberID, tp, acks)
}

// Leave implements consumer.ShareMembership.
func (s *shareMember) Leave(ctx context.Context) error {
	err := s.shares.Leave(ctx, s.member.Group, s.member.MemberID)
	if errors.Is(err, share.ErrClosed) {
		return nil
	}
	return err
}
