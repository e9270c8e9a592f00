package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// A TopicSpec is a topic to be created.
type TopicSpec struct {
	Name   string
	Config topic.Config
}

// CreateTopics creates topics, each by itself: errs[i] is what CreateTopic says of topics[i], in
// the order given. Those that can be created share one write of the metadata, and one sync, unless
// they have more than 10,000 partitions together. An error of that write, or of ctx, is told for
// each of them.
func (c *Cluster) CreateTopics(ctx context.Context, topics []TopicSpec) (errs []error) {
	errs = make([]error, len(topics))
	var together []creation
	partitions := 0
	for i, t := range topics {
		n, err := c.newTopic(t.Name, t.Config)
		if err != nil {
			errs[i] = fmt.Errorf("create topic %q: %w", t.Name, err)
			continue
		}
		if partitions+n.partitions > maxNewPartitions {
			c.create(ctx, together, errs)
			together, partitions = nil, 0
		}
		together, partitions = append(together, creation{n, i}), partitions+n.partitions
	}
	c.create(ctx, together, errs)
	return errs
}

// creation is a checked request and its place among those of the call.
type creation struct {
	newTopic
	index int
}

// create makes one change of several creations and enters what becomes of each.
func (c *Cluster) create(ctx context.Context, ns []creation, errs []error) {
	// Read only when the change has been made: it may be decided on after ctx has ended.
	refused := make([]error, len(ns))
	err := c.change(ctx, func(img *image) (recs []metarecord.Record, _ error) {
		names, partitions := map[string]string{}, 0
		for i, n := range ns {
			key := topic.CollisionKey(n.name)
			own, err := n.records(img)
			if other, ok := names[key]; err == nil && ok {
				err = collision(n.name, other)
			}
			if err == nil {
				err = c.room(img, partitions+n.partitions)
			}
			if refused[i] = err; err == nil {
				names[key] = n.name
				partitions += n.partitions
				recs = append(recs, own...)
			}
		}
		return recs, nil
	})
	for i, n := range ns {
		failed := err
		if failed == nil {
			failed = refused[i]
		}
		if failed != nil {
			errs[n.index] = fmt.Errorf("create topic %q: %w", n.name, failed)
			continue
		}
		n.settings.Warn(c.logger, n.name, n.factor)
	}
}

// collision returns why there can be no topic of that name beside the other one.
func collision(name, other string) error {
	if name == other {
		return ErrTopicExists
	}
	return fmt.Errorf("%w: it collides with %q in metric names, where '.' and '_' are the same", ErrInvalidTopic, other)
}
