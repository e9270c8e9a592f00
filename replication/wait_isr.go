package replication

import (
	"context"
	"fmt"
	"slices"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
)

// WaitISR waits until a partition has a leader and its in-sync set is what is asked for: these
// brokers and no others, in any order; with none given all replicas of the partition. So it waits
// for followers that leave as well as for those that return, and for a broker that has no replica
// until it gets one. It does not poll. When it returns the
// change is in effect on all brokers, and the set may be another one again.
//
// Errors: ErrUnknownTopic if there is no such partition, also if the topic is deleted meanwhile;
// ErrClosed; ctx's, with the set as it was then.
func (c *Cluster) WaitISR(ctx context.Context, tp record.TopicPartition, brokers ...int32) error {
	for {
		version := c.MetadataVersion()
		_, p, err := c.find(tp)
		if err != nil {
			return fmt.Errorf("wait for the in-sync set: %w", err)
		}
		if p.Leader >= 0 && isInSyncSet(p, brokers) {
			return c.inEffect(ctx)
		}
		if _, err := c.WaitMetadata(ctx, version); err != nil {
			return fmt.Errorf("wait for the in-sync set %v of %s-%d, which is %v: %w", brokers, tp.Topic, tp.Partition, p.ISR, err)
		}
	}
}

// inEffect waits until the brokers have done what the metadata says that can be seen now.
func (c *Cluster) inEffect(ctx context.Context) error {
	if err := c.enter(ctx, c.changing); err != nil {
		return err
	}
	<-c.changing // whoever had it is through
	return nil
}

// isInSyncSet reports whether these brokers, all replicas if there are none, are in sync, and no
// others.
func isInSyncSet(p image.Partition, brokers []int32) bool {
	if len(brokers) == 0 {
		brokers = p.Replicas
	}
	outside := func(set, other []int32) bool {
		return slices.ContainsFunc(set, func(id int32) bool { return !slices.Contains(other, id) })
	}
	return !outside(p.ISR, brokers) && !outside(brokers, p.ISR)
}
