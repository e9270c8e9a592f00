package replication

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
)

// An ElectionType selects the leader that ElectLeaders elects.
type ElectionType = image.ElectionType

// Types of elections.
const (
	// PreferredElection elects the first of the replicas, if it is in sync.
	PreferredElection = image.PreferredElection
	// UncleanElection elects any replica whose broker serves, in a partition that has no leader.
	// Acknowledged records may be lost.
	UncleanElection = image.UncleanElection
)

// ElectLeaders elects leaders, in each partition independently: errs[i] is why there is no election
// in tps[i]. Errors: ErrInvalidElectionType, ErrElectionNotNeeded, ErrPreferredLeaderNotAvailable,
// ErrEligibleLeadersNotAvailable, ErrUnknownTopic. An error of the metadata change, ErrClosed and
// the context's error are returned for each partition; after the context's error the election may
// still happen. It is in effect when ElectLeaders returns. Kafka: ElectLeaders.
func (c *Cluster) ElectLeaders(ctx context.Context, kind ElectionType, tps ...record.TopicPartition) (errs []error) {
	var refused []error // read only when the change has been made
	err := c.change(ctx, func(img *image.Image) (recs []metarecord.Record, _ error) {
		if kind != PreferredElection && kind != UncleanElection {
			return nil, fmt.Errorf("%w: %d", ErrInvalidElectionType, kind)
		}
		recs, refused = img.ElectLeaders(kind, tps, c.rules)
		return recs, nil
	})
	if err == nil {
		return refused
	}
	errs = make([]error, len(tps))
	for i, tp := range tps {
		errs[i] = fmt.Errorf("elect a leader of %s-%d: %w", tp.Topic, tp.Partition, err)
	}
	return errs
}

// TransferLeader makes an in-sync replica the leader of its partition, even if it is not the
// preferred one. The next balance (Config.LeaderBalanceInterval) elects the preferred leader again.
// If the replica leads already, nothing changes. The transfer is in effect when TransferLeader
// returns. Errors: ErrUnknownTopic; ErrNotInSync, also for a broker without a replica; ErrClosed;
// and the context's error, after which the transfer may still happen. Kafka has no such request:
// there the replicas are reassigned in another order, and the preferred leader is elected.
func (c *Cluster) TransferLeader(ctx context.Context, tp record.TopicPartition, to int32) error {
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) { return img.TransferLeader(tp, to, c.rules) })
	if err != nil {
		return fmt.Errorf("transfer leader: %w", err)
	}
	return nil
}

// noteElections counts the elections of a change that may have lost records, and emits their
// events.
func (c *Cluster) noteElections(recs []metarecord.Record) {
	for _, rec := range recs {
		ch, ok := rec.(*metarecord.PartitionChange)
		if !ok || !isUnclean(ch) {
			continue
		}
		c.stats.uncleanElections.Add(1)
		name, _ := c.TopicName(ch.TopicID)
		c.logger.Warn("unclean election: records that were acknowledged may be lost", slog.String("topic", name),
			slog.Int("partition", int(ch.Partition)), slog.Int("leader", int(ch.Leader)))
	}
}
