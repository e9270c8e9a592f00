package replication

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// A decision looks at the image and returns the records of a change, none for nothing to do. It
// changes nothing itself.
type decision func(*image.Image) ([]metarecord.Record, error)

// change makes one change of the metadata. It is on stable storage and in effect when change
// returns nil. If ctx ends first it may still happen.
func (c *Cluster) change(ctx context.Context, decide decision) error {
	return c.changeThen(ctx, decide, nil)
}

// changeThen is change with something to do when the change is in effect, before the next one
// begins.
func (c *Cluster) changeThen(ctx context.Context, decide decision, then func([]metarecord.Record)) error {
	if err := c.enter(ctx, c.changing); err != nil {
		return err
	}
	result := make(chan error, 1)
	started := c.run(func() {
		var err error
		if c.unsecured.Load() {
			err = c.meta.Failure() // a founding waits for the disk with its first change
		} else {
			err = c.writable(nil)
		}
		if err == nil {
			err = c.perform(decide, then)
		}
		result <- err
		if err == nil {
			c.settleMetadata()
		}
		<-c.changing
	})
	if !started {
		<-c.changing
		return ErrClosed
	}
	return outcome(ctx, result)
}

// run runs fn on a goroutine that Close waits for; false: the cluster is closed.
func (c *Cluster) run(fn func()) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return false
	}
	c.wg.Go(fn)
	return true
}

// perform makes a change. The caller holds changing, or is open; then may be nil.
func (c *Cluster) perform(decide decision, then func([]metarecord.Record)) error {
	c.mu.RLock()
	recs, err := decide(c.image)
	if err != nil {
		err = c.refusal(c.image, err)
	}
	c.mu.RUnlock()
	if err != nil {
		return err
	}
	if len(recs) == 0 {
		return c.secure() // the result must be durable
	}
	if c.unsecured.Load() && !isSmall(recs) {
		if err := c.found(); err != nil {
			return err
		}
	}
	version, fenced, err := c.meta.Commit(c.image, recs)
	if err == nil {
		err = c.secure()
	}
	if err != nil {
		return err
	}
	c.apply(recs, version)
	if then != nil {
		then(recs)
	}
	if fenced != nil {
		c.apply(fenced.Records, fenced.Version)
		// An error does not undo the change.
		if err := c.retireFenced(c.failedThemselves(fenced.Brokers)); err != nil {
			c.logger.Warn("partitions of a fenced broker keep their leader until the next change", slog.Any("err", err))
		}
	}
	return nil
}

// apply brings a written change into effect and lets broker and clients know.
func (c *Cluster) apply(recs []metarecord.Record, version int64) {
	c.mu.Lock()
	removed, changed := c.affected(recs)
	gone := c.departuresLocked(recs)
	told := c.events.Wanted()
	var happened []Event
	for _, rec := range recs {
		var before subject
		if told {
			before = subjectOf(c.image, rec)
		}
		if err := c.image.Apply(rec); err != nil {
			// Decide and apply disagree: our own fault.
			panic(fmt.Sprintf("replication: decided on a change that does not apply: %v", err))
		}
		if told {
			happened = append(happened, eventsOf(rec, before, subjectOf(c.image, rec))...)
		}
	}
	for i := range happened {
		happened[i].Version = version
	}
	c.tell(happened...) // before the brokers do anything about it
	c.removals.Add(int64(len(removed)))
	due := c.publishLocked(version)
	c.mu.Unlock()
	c.depart(gone)
	c.settle(c.concerned(recs)) // before readers look for the new leaders
	c.letGo(recs)
	c.noteElections(recs)
	c.noteBalance(recs)
	c.noteBrokers(recs)
	for _, n := range c.servingNodes() {
		n.noteProgress()
	}
	for _, ch := range due {
		close(ch)
	}
	for _, t := range removed {
		if err := c.heed(c.servingNodes(), func(n *node, step func()) error { return n.remove(t, step) }); err != nil {
			c.logger.Warn("deleted topic leaves files behind until the next open", slog.String("topic", t.Name), slog.Any("err", err))
		}
	}
	for _, id := range changed {
		c.reconfigure(id)
	}
}

// publishLocked makes the image the metadata as of version and returns the goroutines that wait for
// it.
func (c *Cluster) publishLocked(version int64) (due []chan struct{}) {
	c.image.Publish(version)
	c.moment = moment{c.meta.Epoch(), version}
	c.version.Store(version)
	c.rates.Store(ratesOf(c.image.BrokerConfigs))
	c.groups.Store(c.image.Groups())
	c.noteClientMetricsLocked(version)
	c.indexAccessLocked()
	c.quotas.Store(c.image.Quotas())
	for e := c.waiters.Pop(version); e != nil; e = c.waiters.Pop(version) {
		due = append(due, e.Value)
	}
	return due
}

// affected returns the topics that recs remove and the ids of those whose configuration they
// change.
func (c *Cluster) affected(recs []metarecord.Record) (removed []*image.Topic, changed []topic.ID) {
	for _, rec := range recs {
		switch rec := rec.(type) {
		case *metarecord.RemoveTopic:
			removed = append(removed, c.image.ByID[rec.ID])
		case *metarecord.Config:
			switch {
			case rec.ResourceType == metarecord.ResourceGroup, rec.ResourceType == metarecord.ResourceClientMetrics,
				rec.ResourceType == metarecord.ResourceBroker && isRate(rec.Name):
				continue // no partition depends on it
			}
			if rec.ResourceType == metarecord.ResourceBroker {
				// A change of brokers changes nothing else.
				return removed, slices.Collect(maps.Keys(c.image.ByID))
			}
			// Nil: created by the same change, nothing is open yet.
			t := c.image.Topics[rec.ResourceName]
			if t != nil && (len(changed) == 0 || changed[len(changed)-1] != t.ID) {
				changed = append(changed, t.ID)
			}
		}
	}
	return removed, changed
}

func (c *Cluster) reconfigure(id topic.ID) {
	c.mu.RLock()
	t := c.image.ByID[id]
	c.mu.RUnlock()
	if err := c.heed(c.servingNodes(), func(n *node, step func()) error { return n.reconfigure(t, step) }); err != nil {
		c.logger.Warn("partitions keep their old settings until the next open", slog.String("topic", t.Name), slog.Any("err", err))
	}
}
