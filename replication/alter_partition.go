package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/replication/internal/image"
)

// An alterAnswer is the response to a leader's proposal.
type alterAnswer struct {
	// State is the partition after the change, also if it was refused or there was nothing to
	// change. Its Replicas are nil if there is no such partition.
	State election.Partition
	// Err is the reason of a rejection: an error of package election, or ErrUnknownTopic.
	Err error
}

// alterPartitions makes one change of the leaders' proposals, each independently, and returns the
// result of each when it is in effect. After an error of the change the results are unknown; after
// an error of ctx the proposals may still be accepted. It waits for changes in progress, so a
// goroutine that makes one must not wait for it. Kafka: AlterPartition.
func (c *Cluster) alterPartitions(ctx context.Context, asked []image.Proposal) ([]alterAnswer, error) {
	// Read only when the change has been made: it may be decided on after ctx has ended.
	var refused []error
	err := c.change(ctx, func(img *image.Image) (recs []metarecord.Record, err error) {
		recs, refused = img.AlterPartitions(asked, c.rules)
		return recs, nil
	})
	if err != nil {
		return nil, fmt.Errorf("alter partitions: %w", err)
	}
	answers := make([]alterAnswer, len(asked))
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i, a := range asked {
		answers[i].Err = refused[i]
		if t := c.image.ByID[a.Topic]; t != nil && a.Partition >= 0 && int(a.Partition) < len(t.Partitions) {
			answers[i].State = t.Partitions[a.Partition].State()
		}
	}
	return answers, nil
}
