package share

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share/internal/groupstate"
)

// A partition of the topic is pruned when it has more than pruneFrom records, and more than
// prunePer for each share-partition. Writing these once more is then a small part of all writes.
const (
	pruneFrom = 1000
	prunePer  = 4
)

// snapshotsAtOnce bounds the share-partitions whose snapshots are written concurrently.
const snapshotsAtOnce = 64

// pruneAgain drops the state of deleted topics, prunes the partitions of the topic, and ends unused
// leaders, every Config.PruneInterval.
func (c *Coordinator) pruneAgain() {
	every := time.NewTicker(c.cfg.PruneInterval)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			c.endUnused()
			if err := errors.Join(c.forgetDeleted(c.ctx), c.prune(c.ctx, pruneFrom)); err != nil && c.ctx.Err() == nil {
				c.cfg.Logger.Warn("pruning failed", "topic", sharelog.Topic, "err", err)
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// forgetDeleted deletes the share-partitions of deleted topics, whose ids are never used again.
func (c *Coordinator) forgetDeleted(ctx context.Context) error {
	return c.route.Each(ctx, func(s *shard) error {
		var ids []string
		if err := s.Each(ctx, func(id string, _ *groupstate.Machine) { ids = append(ids, id) }); err != nil {
			return err
		}
		for _, id := range ids {
			key, err := sharelog.ParseID(id)
			if err != nil {
				return err
			}
			if _, ok := c.cluster.TopicName(key.TopicID); ok {
				continue
			}
			if _, err := s.Do(ctx, id, func(r *request) { r.Step(id, groupstate.EventDelete{To: r.Ticket}) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// prune deletes records that snapshots replace, in partitions with more than from records.
func (c *Coordinator) prune(ctx context.Context, from int64) error {
	return c.route.Each(ctx, func(s *shard) error { return c.pruneShard(ctx, s, from) })
}

// pruneShard writes a snapshot of every share-partition at the end, and deletes the records before
// the former end. A load then begins with a snapshot, or with updates before one, which are
// skipped.
func (c *Coordinator) pruneShard(ctx context.Context, s *shard, from int64) error {
	start, end, err := c.states.topic.Log(s.Partition(), s.Leadership().Epoch).Bounds()
	if err != nil {
		return err
	}
	var ids []string
	if err := s.Each(ctx, func(id string, _ *groupstate.Machine) { ids = append(ids, id) }); err != nil {
		return err
	}
	if end-start <= max(from, prunePer*int64(len(ids))) {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(snapshotsAtOnce)
	for _, id := range ids {
		g.Go(func() error {
			_, err := s.Do(ctx, id, func(r *request) { r.Step(id, groupstate.EventSnapshot{To: r.Ticket}) })
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	tp := record.TopicPartition{Topic: sharelog.Topic, Partition: s.Partition()}
	_, err = c.cluster.DeleteRecords(c.ctx, map[record.TopicPartition]int64{tp: end})
	return err
}
