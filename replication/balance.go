package replication

import (
	"context"
	"errors"
	"log/slog"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/image"
)

// maxBalanced bounds the elections of one change. Kafka: MAX_ELECTIONS_PER_IMBALANCE.
const maxBalanced = 1000

// noteBalance has leaders balanced after the interval if a change gave a partition another leader
// than the preferred one. A cluster whose partitions are led as they are to be has no timer.
func (c *Cluster) noteBalance(recs []metarecord.Record) {
	if c.cfg.LeaderBalanceInterval == log.Unlimited {
		return
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, rec := range recs {
		if p := c.partitionOfLocked(rec); p != nil && p.Unbalanced() {
			c.balance.After(c.cfg.LeaderBalanceInterval)
			return
		}
	}
}

// partitionOfLocked returns the partition that a record creates or changes, nil if it does neither.
func (c *Cluster) partitionOfLocked(rec metarecord.Record) *image.Partition {
	var t *image.Topic
	var n int32
	switch rec := rec.(type) {
	case *metarecord.Partition:
		t, n = c.image.ByID[rec.TopicID], rec.Partition
	case *metarecord.PartitionChange:
		t, n = c.image.ByID[rec.TopicID], rec.Partition
	}
	if t == nil { // or the same change has removed it
		return nil
	}
	return &t.Partitions[n]
}

// balanceLeaders makes preferred replicas leaders where they are in sync. A preferred replica that
// joins the ISR later is recorded by that change.
func (c *Cluster) balanceLeaders() {
	for moved := maxBalanced; moved == maxBalanced; {
		err := c.change(context.Background(), func(img *image.Image) ([]metarecord.Record, error) {
			recs := img.Balance(maxBalanced, c.rules)
			moved = len(recs)
			return recs, nil
		})
		if errors.Is(err, ErrClosed) {
			return
		}
		if err != nil {
			c.logger.Warn("preferred leaders were not elected", slog.Any("err", err))
			c.balance.After(c.cfg.LeaderBalanceInterval)
			return
		}
	}
}
