package replication

import (
	"context"
	"slices"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Producers lists the state of a partition's producers, by producer id. A partition without records
// has none, and the call creates no files. Errors: ErrUnknownTopic, ErrNotLeader, ErrClosed, why
// the partition is offline, and the context's error. Kafka: DescribeProducers.
func (c *Cluster) Producers(ctx context.Context, tp record.TopicPartition) ([]partition.ProducerState, error) {
	return c.producers(ctx, tp, anyBroker)
}

func (c *Cluster) producers(ctx context.Context, tp record.TopicPartition, asked int32) ([]partition.ProducerState, error) {
	p, err := c.written(ctx, tp, asked)
	if p == nil {
		return nil, err
	}
	return p.Producers(), nil
}

// EpochEnd returns the largest leader epoch of a partition that is not above epoch, and the offset
// where it ended, exclusive: the log end for the current epoch. Both are -1 if there is no such
// epoch or if epoch is above the current one. currentEpoch is the caller's current leader epoch of
// the partition, or -1 to skip the check. If it is wrong, EpochEnd returns
// partition.ErrFencedLeaderEpoch or partition.ErrUnknownLeaderEpoch. Further errors: those of
// Producers. Kafka: OffsetForLeaderEpoch.
func (c *Cluster) EpochEnd(ctx context.Context, tp record.TopicPartition, currentEpoch, epoch int32) (int32, int64, error) {
	return c.epochEnd(ctx, tp, epochs{currentEpoch, epoch}, anyBroker)
}

// epochs are the arguments of EpochEnd.
type epochs struct {
	current int32 // the caller's current epoch of the partition; -1: any
	of      int32 // the epoch whose end is requested
}

func (c *Cluster) epochEnd(ctx context.Context, tp record.TopicPartition, e epochs, asked int32) (int32, int64, error) {
	if err := c.checkLeaderEpoch(tp, e.current, asked); err != nil {
		return -1, -1, err
	}
	epoch := e.of
	p, err := c.written(ctx, tp, asked)
	if err != nil {
		return -1, -1, err
	}
	_, meta, err := c.find(tp)
	switch {
	case err != nil:
		return -1, -1, err
	case epoch < 0 || epoch > meta.LeaderEpoch:
		return -1, -1, nil
	case p != nil:
		known, end := p.EpochEnd(epoch)
		return known, end, nil
	case epoch == meta.LeaderEpoch:
		return epoch, 0, nil
	}
	return -1, -1, nil
}

func (c *Cluster) checkLeaderEpoch(tp record.TopicPartition, epoch, asked int32) error {
	_, meta, err := c.find(tp)
	switch {
	case err != nil:
		return err
	case asked != anyBroker && !slices.Contains(meta.Replicas, asked):
		return notLedBy(tp, asked)
	case epoch != -1 && epoch < meta.LeaderEpoch:
		return partition.ErrFencedLeaderEpoch
	case epoch > meta.LeaderEpoch:
		return partition.ErrUnknownLeaderEpoch
	case asked != anyBroker && asked != meta.Leader:
		return notLedBy(tp, asked)
	}
	return nil
}

// written returns the replica that leads a partition, nil if it was never written.
func (c *Cluster) written(ctx context.Context, tp record.TopicPartition, asked int32) (*partition.Partition, error) {
	if err := c.live(ctx); err != nil {
		return nil, err
	}
	r, err := c.leaderReplica(tp, asked)
	if err != nil {
		return nil, err
	}
	return r.state()
}

// LogDir returns the directory of a broker's partitions, as a path of the broker's file system. It
// is empty if the broker is not running.
func (c *Cluster) LogDir(broker int32) string {
	if n := c.serving()[broker]; n != nil {
		return n.root
	}
	return ""
}

// SyncTimes returns the durations of the syncs that made records durable on a broker's disk, since
// the broker was started. It is empty if the broker is not running.
func (c *Cluster) SyncTimes(broker int32) log.Latencies {
	if n := c.serving()[broker]; n != nil && n.dir != nil {
		return n.dir.SyncTimes()
	}
	return log.Latencies{}
}

// Space returns the total and free bytes of the file system of a broker's directory. Both are -1 if
// unknown, as in memory.
func (c *Cluster) Space(broker int32) (total, free int64) {
	n := c.serving()[broker]
	if n == nil {
		return -1, -1
	}
	if s, ok := n.fs.(vfs.SpaceFS); ok {
		if total, free, err := s.Space(n.root); err == nil {
			return total, free
		}
	}
	return -1, -1
}
