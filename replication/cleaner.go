package replication

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
)

// schedule says how often logs are cleaned; log.Unlimited means never.
type schedule struct{ retention, compaction time.Duration }

// startCleaner starts the broker's one cleaner, once there is something to clean.
func (b *broker) startCleaner() {
	if b.schedule.retention == log.Unlimited && b.schedule.compaction == log.Unlimited {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cleaning || b.closed {
		return
	}
	b.cleaning = true
	b.wg.Go(b.clean)
}

// clean looks at all open partitions now and then, until the broker closes.
func (b *broker) clean() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.wg.Go(func() { // a long compaction ends early
		<-b.closing
		cancel()
	})
	retention, compaction := newTicks(b.schedule.retention), newTicks(b.schedule.compaction)
	defer retention.stop()
	defer compaction.stop()
	for {
		select {
		case <-retention.c:
			b.cleanAll(ctx, func(*replica) bool { return true })
		case <-compaction.c:
			b.cleanAll(ctx, func(r *replica) bool { return r.compacted.Load() })
		case <-b.closing:
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

// cleanAll cleans the open partitions that want it, one after the other: cleaning is disk work that should not crowd out appends.
func (b *broker) cleanAll(ctx context.Context, want func(*replica) bool) {
	for _, r := range b.all() {
		p := r.part.Load()
		if p == nil || !want(r) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := p.Clean(ctx); err != nil && !errors.Is(err, partition.ErrClosed) && ctx.Err() == nil {
			b.logger.Error("cleaning failed", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)), slog.Any("err", err))
		}
	}
}

// Clean runs retention and compaction on every open partition now, instead of at its next turn. The error joins those of the partitions.
func (c *Cluster) Clean(ctx context.Context) error {
	return c.await(ctx, func() error {
		var errs []error
		for _, r := range c.broker.all() {
			if p := r.part.Load(); p != nil {
				_, err := p.Clean(ctx)
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}
