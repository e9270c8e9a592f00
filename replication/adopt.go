package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// An AdoptedTopic is a topic whose partitions are files of another cluster.
type AdoptedTopic struct {
	TopicSpec // Config.ID is required; Config.Partitions is the length of LeaderEpochs
	// LeaderEpochs has the initial leader epoch of each partition in the metadata. It must not be
	// smaller than any epoch in the partition's files.
	LeaderEpochs []int32
}

// AdoptTopics creates topics with one replica per partition, as CreateTopics does, whose partitions
// continue in the leader epochs of another cluster. It creates no files. The caller closes the
// cluster before anything is written to the topics, and then moves the files into the broker's
// directory; the next Open uses them. Package kafkadir does so.
//
// The topics are created one after the other. AdoptTopics stops at the first topic that cannot be
// created and returns an error of CreateTopic.
func (c *Cluster) AdoptTopics(ctx context.Context, topics ...AdoptedTopic) error {
	for _, t := range topics {
		n, err := c.newTopic(t.Name, t.Config)
		if err == nil && n.partitions != len(t.LeaderEpochs) {
			err = fmt.Errorf("%w: %d, with %d leader epochs", ErrInvalidPartitions, n.partitions, len(t.LeaderEpochs))
		}
		if err == nil {
			err = c.change(ctx, c.adoptTopic(n, t.LeaderEpochs))
		}
		if err != nil {
			return fmt.Errorf("adopt topic %q: %w", t.Name, err)
		}
	}
	return nil
}

// adoptTopic is the decision to create a topic with leader epochs.
func (c *Cluster) adoptTopic(n newTopic, epochs []int32) decision {
	return func(img *image.Image) ([]metarecord.Record, error) {
		recs, err := img.CreateTopic(n.command(), c.limits())
		for _, rec := range recs {
			if p, ok := rec.(*metarecord.Partition); ok {
				p.LeaderEpoch = epochs[p.Partition]
			}
		}
		return recs, err
	}
}

// SkipProducerIDs durably prevents InitProducerID from returning an id below next. It is for ids
// that another cluster has handed out. It does nothing if all ids below next are used up already.
// Errors: ErrClosed, the context's error, and disk errors.
func (c *Cluster) SkipProducerIDs(ctx context.Context, next int64) error {
	err := c.changeThen(ctx, func(img *image.Image) ([]metarecord.Record, error) {
		if img.NextProducerID-producerIDBlock >= next { // nothing below is left of the block that is given out
			return nil, nil
		}
		return img.ReserveProducerIDs(c.Controller(), max(next-img.NextProducerID, 0)+producerIDBlock), nil
	}, c.addProducerIDs)
	if err != nil {
		return fmt.Errorf("skip producer ids below %d: %w", next, err)
	}
	return nil
}
