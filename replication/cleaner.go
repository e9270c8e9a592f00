package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// schedule has the intervals at which logs are cleaned; log.Unlimited means never.
type schedule struct{ retention, compaction time.Duration }

// startCleaner starts the broker's one cleaner, once there is something to clean.
func (n *node) startCleaner() {
	if n.schedule.retention == log.Unlimited && n.schedule.compaction == log.Unlimited {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cleaning || n.closed != nil {
		return
	}
	n.cleaning = true
	n.wg.Go(n.clean)
}

// clean looks at all open partitions now and then, until the broker closes.
func (n *node) clean() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.wg.Go(func() { // a long compaction ends early
		<-n.closing
		cancel()
	})
	retention, compaction := newTicks(n.schedule.retention), newTicks(n.schedule.compaction)
	defer retention.stop()
	defer compaction.stop()
	for {
		select {
		case <-retention.c:
			n.cleanAll(ctx, func(*replica) bool { return true }, (*partition.Partition).Retain)
		case <-compaction.c:
			n.cleanAll(ctx, func(r *replica) bool { return r.compacted.Load() }, (*partition.Partition).Clean)
		case <-n.closing:
			return
		}
	}
}

// ticks is a ticker that may be off.
type ticks struct {
	c      <-chan time.Time
	ticker *time.Ticker
}

func newTicks(every time.Duration) ticks {
	if every == log.Unlimited {
		return ticks{}
	}
	t := time.NewTicker(every)
	return ticks{t.C, t}
}

func (t ticks) stop() {
	if t.ticker != nil {
		t.ticker.Stop()
	}
}

// cleanAll cleans the open partitions that want it, one after the other: cleaning is disk work that
// should not crowd out appends.
func (n *node) cleanAll(ctx context.Context, want func(*replica) bool, clean func(*partition.Partition, context.Context) (log.CleanReport, error)) {
	for _, r := range n.all() {
		p := r.part.Load()
		if p == nil || !want(r) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := clean(p, ctx); err != nil && !errors.Is(err, partition.ErrClosed) && ctx.Err() == nil {
			n.logger.Error("cleaning failed", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)), slog.Any("err", err))
		}
	}
}

// A PartitionClean reports the result of Clean for one partition, and why Clean did not remove
// more.
type PartitionClean struct {
	TopicPartition  record.TopicPartition
	log.CleanReport       // the removed, compacted and kept parts, with the reasons
	Err             error // the disk's error, or why the partition is offline
}

// String returns the result as one line.
func (c PartitionClean) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s-%d:", c.TopicPartition.Topic, c.TopicPartition.Partition)
	if c.Err != nil {
		fmt.Fprintf(&b, " %v", c.Err)
		return b.String()
	}
	removed, kept := 0, ""
	for _, s := range c.Segments {
		if s.Removed {
			removed++
		} else if kept == "" {
			kept = s.Reason
		}
	}
	fmt.Fprintf(&b, " %d of %d segments removed", removed, len(c.Segments))
	if kept != "" {
		fmt.Fprintf(&b, ", the oldest of the others stays: %s", kept)
	}
	switch r := c.Compaction; {
	case r == nil:
	case r.Skipped != "":
		fmt.Fprintf(&b, "; not compacted: %s", r.Skipped)
	default:
		fmt.Fprintf(&b, "; compacted to offset %d: %d of %d records left", r.End, r.RecordsAfter, r.RecordsBefore)
	}
	return b.String()
}

// Clean runs retention and compaction now, instead of at their next interval, on all partitions of
// the given topics; no topics means all. It returns a report of each partition, sorted by topic and
// partition. Partitions that were never written to are left out. The error joins the partitions'
// errors. Errors of the call itself: ErrUnknownTopic, ErrClosed, and the context's error.
func (c *Cluster) Clean(ctx context.Context, topics ...string) (report []PartitionClean, err error) {
	rs, err := c.replicasOf(topics)
	if err != nil {
		return nil, fmt.Errorf("clean: %w", err)
	}
	done := make(chan []PartitionClean, 1)
	err = c.await(ctx, func() error {
		var errs []error
		var cleaned []PartitionClean
		for _, r := range rs {
			one := PartitionClean{TopicPartition: r.tp}
			p, err := r.state()
			switch {
			case err != nil:
				one.Err = err
			case p == nil:
				continue
			default:
				one.CleanReport, one.Err = p.Clean(ctx)
			}
			errs = append(errs, one.Err)
			cleaned = append(cleaned, one)
		}
		done <- cleaned
		return errors.Join(errs...)
	})
	select {
	case report = <-done:
	default: // ctx ended, or the cluster is closed
	}
	return report, err
}

// PreviewClean returns the report that Clean would return now of the leader's replica of a
// partition, as far as it is known before records are read, and changes nothing: see
// log.Log.Preview. A partition that was never written to has an empty report. Errors: those of
// Producers, and the disk's.
func (c *Cluster) PreviewClean(ctx context.Context, tp record.TopicPartition) (report log.CleanReport, err error) {
	p, err := c.written(ctx, tp, anyBroker)
	if p == nil {
		return report, err
	}
	done := make(chan log.CleanReport, 1)
	err = c.await(ctx, func() error {
		rep, err := p.Preview()
		done <- rep
		return err
	})
	select {
	case report = <-done:
	default: // ctx ended, or the cluster is closed
	}
	return report, err
}

// Roll closes the active segments of the given partitions of a topic, of all if none is given, and
// opens new ones. The next Clean can compact a closed segment, and removes it as a whole when its
// newest record is old enough. Empty active segments are not closed. Errors: ErrUnknownTopic, disk
// errors, ErrClosed, and the context's error.
func (c *Cluster) Roll(ctx context.Context, name string, partitions ...int32) error {
	for _, i := range partitions {
		if _, _, err := c.find(record.TopicPartition{Topic: name, Partition: i}); err != nil {
			return fmt.Errorf("roll: %w", err)
		}
	}
	rs, err := c.replicasOf([]string{name})
	if err != nil {
		return fmt.Errorf("roll: %w", err)
	}
	return c.await(ctx, func() error {
		var errs []error
		for _, r := range rs {
			if len(partitions) > 0 && !slices.Contains(partitions, r.tp.Partition) {
				continue
			}
			p, err := r.state()
			if p != nil {
				err = p.Roll()
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// replicasOf returns the replicas of topics, of all if there are none, sorted by topic and
// partition.
func (c *Cluster) replicasOf(topics []string) ([]*replica, error) {
	ids := map[topic.ID]bool{}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil, ErrClosed
	}
	for _, name := range topics {
		t := c.image.Topics[name]
		if t == nil {
			return nil, c.unknownTopic(c.image, name)
		}
		ids[t.ID] = true
	}
	rs := slices.DeleteFunc(replicasOn(c.nodes), func(r *replica) bool { return len(topics) > 0 && !ids[r.id] })
	slices.SortFunc(rs, func(a, b *replica) int {
		return cmp.Or(strings.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	return rs, nil
}
