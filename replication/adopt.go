package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// An AdoptedTopic is a topic whose partitions come from another cluster, by their files.
type AdoptedTopic struct {
	TopicSpec // with Config.ID, and as many Config.Partitions as there are LeaderEpochs
	// LeaderEpochs are, by partition, the epochs that the metadata begin with: none that occurs in
	// the partition's files may be larger.
	LeaderEpochs []int32
}

// AdoptTopics creates topics of one replica each, as CreateTopics, whose partitions go on in the
// leader epochs that they had in another cluster. It makes no files: theirs are put into the
// broker's directory when the cluster is closed, before anything was written to the topics, and the
// next Open takes them for its own. Package kafkadir does that.
//
// The topics are created one after the other, and the first one that cannot be ends that, with an
// error of CreateTopic.
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

// SkipProducerIDs has InitProducerID give out no id below next any more, durably: others know them
// already. It does nothing if it does not anyway. Errors: ErrClosed, ctx's, those of the disk.
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
