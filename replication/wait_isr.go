package replication

import (
	"context"
	"fmt"
	"slices"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
)

// WaitISR waits until a partition has a leader and its ISR consists of exactly the given brokers,
// in any order; no brokers means all replicas of the partition. So it waits for followers to leave
// as well as to return, and for a broker without a replica until it gets one. It does not poll.
// When it returns, the change is in effect on all brokers, but the ISR may have changed again.
//
// Errors: ErrUnknownTopic if there is no such partition, also if the topic is deleted meanwhile;
// ErrClosed; and the context's error, whose text has the ISR at that time.
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

// inEffect waits until the brokers have followed the present metadata.
func (c *Cluster) inEffect(ctx context.Context) error {
	if err := c.enter(ctx, c.changing); err != nil {
		return err
	}
	<-c.changing // the earlier holder has ended
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
