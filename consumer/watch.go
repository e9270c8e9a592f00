package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// topicView is a topic as the metadata shows it.
type topicView struct {
	id         topic.ID
	partitions int32
}

// view returns those of the topics that exist.
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
		if t.Err == nil {
			views[name] = topicView{t.ID, int32(len(t.Partitions))}
		}
	}
	return views, nil
}

// topicsOf returns the names of the topics of tps, sorted.
func topicsOf(tps []record.TopicPartition) []string {
	names := map[string]bool{}
	for _, tp := range tps {
		names[tp.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// runWatch calls review whenever the metadata has changed, at first too, until ctx is done or the backend is closed.
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
		case errors.Is(err, replication.ErrClosed):
			c.fail(fmt.Errorf("consumer: %w", err))
			return
		default:
			pause(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// reviewFree keeps a free consumer assigned to all partitions of its topics, or to those of Config.Assign that exist.
func (c *Consumer) reviewFree(ctx context.Context) error {
	names, err := c.subscribed(ctx)
	if err != nil {
		return err
	}
	assign := slices.Collect(maps.Keys(c.cfg.Assign))
	if len(assign) > 0 {
		names = topicsOf(assign)
	}
	_, err = c.retarget(ctx, 0, names, func(views map[string]topicView) []record.TopicPartition {
		if len(assign) > 0 {
			return assign
		}
		var all []record.TopicPartition
		for _, name := range names {
			for p := range views[name].partitions {
				all = append(all, record.TopicPartition{Topic: name, Partition: p})
			}
		}
		return all
	})
	return err
}

// retarget makes those partitions that choose returns and that exist the target, tied to the topics that have their names
// now. names are their topics. The channel is closed when the target is adopted.
func (c *Consumer) retarget(ctx context.Context, membership int64, names []string, choose func(map[string]topicView) []record.TopicPartition) (<-chan struct{}, error) {
	asked := map[string]bool{}
	for _, name := range append(slices.Clone(names), c.topicsHeld()...) {
		asked[name] = true
	}
	views, err := c.view(ctx, slices.Collect(maps.Keys(asked)))
	if err != nil {
		return nil, err
	}
	next := target{assignment: assignment{membership, map[record.TopicPartition]topic.ID{}}, gone: map[record.TopicPartition]topic.ID{}}
	for _, tp := range choose(views) {
		if v, ok := views[tp.Topic]; ok && tp.Partition < v.partitions {
			next.partitions[tp] = v.id
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, had := range []assignment{c.held, c.target.assignment} {
		for tp, id := range had.partitions {
			if v := views[tp.Topic]; asked[tp.Topic] && (v.id != id || tp.Partition >= v.partitions) {
				next.gone[tp] = id
			}
		}
	}
	same := next.membership == c.target.membership && maps.Equal(next.partitions, c.target.partitions) && maps.Equal(next.gone, c.target.gone)
	if same && len(c.target.waiting) == 0 { // it is adopted
		adopted := make(chan struct{})
		close(adopted)
		return adopted, nil
	}
	return c.assignLocked(next), nil
}

// topicsHeld returns the topics of what is held or to be held.
func (c *Consumer) topicsHeld() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(topicsOf(slices.Collect(maps.Keys(c.held.partitions))), topicsOf(slices.Collect(maps.Keys(c.target.partitions)))...)
}
