package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// topicView is the metadata of a topic.
type topicView struct {
	id         topic.ID
	partitions int32
}

// view returns the existing ones of the topics.
func (c *Consumer) view(ctx context.Context, topics []string) (map[string]topicView, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	md, err := c.logs.Metadata(ctx, topics...)
	if err != nil {
		return nil, err
	}
	views := make(map[string]topicView, len(topics))
	for name, t := range md.Topics {
		if err := undecided(name, t); err != nil {
			return nil, err
		}
		if t.Err == nil {
			views[name] = topicView{t.ID, int32(len(t.Partitions))}
		}
	}
	return views, nil
}

// undecided returns the error of a topic that may exist; nil for a topic that exists or does not.
func undecided(name string, t replication.TopicMetadata) error {
	if _, decided := retriable.Of(t.Err); decided {
		return fmt.Errorf("topic %s: %w", name, t.Err)
	}
	return nil
}

// topicsOf returns the names of the topics of tps, sorted.
func topicsOf(tps []record.TopicPartition) []string {
	names := map[string]bool{}
	for _, tp := range tps {
		names[tp.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// runWatch calls review at first and whenever the metadata has changed, until ctx is done or the
// backend is closed.
func (c *Consumer) runWatch(ctx context.Context, review func(context.Context) error) {
	version := int64(-1)
	for backoff := minBackoff; ctx.Err() == nil; {
		v, err := c.logs.WaitMetadata(ctx, version)
		if err == nil {
			err = review(ctx)
		}
		switch {
		case err == nil:
			version, backoff = v, minBackoff
		case ctx.Err() != nil:
		case errors.Is(err, replication.ErrClosed), retriable.Final(err):
			c.fail(fmt.Errorf("consumer: metadata: %w", err))
			return
		default:
			c.warnRepeated("metadata cannot be read, trying again", err)
			pause(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// reviewFree keeps a free consumer assigned to all partitions of its topics, or to those of
// Config.Assign that exist.
func (c *Consumer) reviewFree(ctx context.Context) error {
	for {
		c.mu.Lock()
		version := c.topicsVersion
		c.mu.Unlock()
		names, err := c.subscribed(ctx)
		if err != nil {
			return err
		}
		assign := slices.SortedFunc(maps.Keys(c.cfg.Assign), compareTP)
		if len(assign) > 0 {
			names = topicsOf(assign)
		}
		views, err := c.viewToo(ctx, names)
		if err != nil {
			return err
		}
		if len(assign) == 0 {
			for _, name := range names {
				for p := range views[name].partitions {
					assign = append(assign, record.TopicPartition{Topic: name, Partition: p})
				}
			}
		}
		c.mu.Lock()
		same := c.topicsVersion == version // else Subscribe was called meanwhile
		if same {
			c.resolveLocked(0, wanted{names: assign}, views)
		}
		c.mu.Unlock()
		if same {
			return nil
		}
	}
}

// retarget makes the existing partitions of want the target. The channel is closed when the target
// is adopted.
func (c *Consumer) retarget(ctx context.Context, membership int64, want wanted) (adopted <-chan struct{}, err error) {
	views, err := c.viewToo(ctx, topicsOf(want.names))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resolveLocked(membership, want, views), nil
}

// followTopics applies the present target to the present topics, which may have been deleted or
// created again. The membership goroutine may be in the middle of a rebalance at that time.
func (c *Consumer) followTopics(ctx context.Context) error {
	for {
		c.mu.Lock()
		now := c.target
		c.mu.Unlock()
		views, err := c.viewToo(ctx, topicsOf(now.names))
		if err != nil {
			return err
		}
		c.mu.Lock()
		same := c.target.version == now.version
		if same {
			c.resolveLocked(now.membership, now.wanted, views)
		}
		c.mu.Unlock()
		if same {
			return nil
		}
	}
}

// viewToo is view for names and for the topics of held and target partitions; all of them have an
// entry.
func (c *Consumer) viewToo(ctx context.Context, names []string) (map[string]topicView, error) {
	names = append(slices.Clone(names), c.topicsHeld()...)
	views, err := c.view(ctx, names)
	if err != nil {
		return nil, err
	}
	if views == nil {
		views = map[string]topicView{}
	}
	for _, name := range names {
		if _, known := views[name]; !known {
			views[name] = topicView{}
		}
	}
	return views, nil
}

// resolveLocked makes the existing partitions of want the target.
func (c *Consumer) resolveLocked(membership int64, want wanted, views map[string]topicView) (adopted <-chan struct{}) {
	next := target{
		assignment: assignment{membership, map[record.TopicPartition]topic.ID{}}, wanted: want, gone: map[record.TopicPartition]topic.ID{},
	}
	for _, tp := range want.names {
		v := views[tp.Topic]
		if id, given := want.ids[tp.Topic]; tp.Partition < v.partitions && (!given || id == v.id) {
			next.partitions[tp] = v.id
		}
	}
	for _, had := range []assignment{c.held, c.target.assignment} {
		for tp, id := range had.partitions {
			if v, viewed := views[tp.Topic]; viewed && (v.id != id || tp.Partition >= v.partitions) {
				next.gone[tp] = id
			}
		}
	}
	same := next.membership == c.target.membership && want.equal(c.target.wanted) &&
		maps.Equal(next.partitions, c.target.partitions) && maps.Equal(next.gone, c.target.gone)
	if same && len(c.target.waiting) == 0 { // it is adopted
		ch := make(chan struct{})
		close(ch)
		return ch
	}
	return c.assignLocked(next)
}

// topicsHeld returns the topics of held and target partitions.
func (c *Consumer) topicsHeld() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(topicsOf(slices.Collect(maps.Keys(c.held.partitions))), topicsOf(slices.Collect(maps.Keys(c.target.partitions)))...)
}
