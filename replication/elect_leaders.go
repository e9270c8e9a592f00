package replication

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
)

// An ElectionType says which leader ElectLeaders is asked for.
type ElectionType = image.ElectionType

// Types of elections.
const (
	// PreferredElection makes the first of the replicas leader, if it is in sync.
	PreferredElection = image.PreferredElection
	// UncleanElection gives a partition without a leader any that its replicas' brokers can be,
	// also at the price of records that were acknowledged.
	UncleanElection = image.UncleanElection
)

// ElectLeaders elects leaders, in each partition by itself: errs[i] is why there is no election in
// tps[i]. Errors: ErrInvalidElectionType, ErrElectionNotNeeded, ErrPreferredLeaderNotAvailable,
// ErrEligibleLeadersNotAvailable, ErrUnknownTopic. An error of the change of the metadata,
// ErrClosed and that of ctx are told for each of them; with ctx's it may still happen. It is in
// effect when ElectLeaders returns. Kafka: ElectLeaders.
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

// TransferLeader makes a replica in sync the leader of its partition, whether or not it is the
// preferred one, to whom the leader goes back with the next balance
// (Config.LeaderBalanceInterval). If it leads already nothing changes. It is in effect when
// TransferLeader returns. Errors: ErrUnknownTopic; ErrNotInSync, also for a broker that has no
// replica; ErrClosed and ctx's, with which it may still happen. Kafka has no such request: there
// the replicas are reassigned in another order, and the preferred leader elected.
func (c *Cluster) TransferLeader(ctx context.Context, tp record.TopicPartition, to int32) error {
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) { return img.TransferLeader(tp, to, c.rules) })
	if err != nil {
		return fmt.Errorf("transfer leader: %w", err)
	}
	return nil
}

// noteElections counts the elections of a change that may have cost records, and tells them.
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
