package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// TimestampsAt returns, at the leader of each partition, the offset and the timestamp of the first
// record at the given offset or later: see partition.Partition.TimestampAt. Both are exact to one
// batch. The offset is -1 if there is no such record. Errors are those of ListOffsets: a partition
// whose disk returns nothing for 500 ms has partition.ErrTimeout.
func (c *Cluster) TimestampsAt(ctx context.Context, from record.Offsets) (map[record.TopicPartition]partition.OffsetResult, error) {
	results := make(map[record.TopicPartition]partition.OffsetResult, len(from))
	onDisk := map[*node][]offsetLookup{}
	for tp, offset := range from {
		if err := c.live(ctx); err != nil {
			return nil, err
		}
		r, p, err := c.leading(tp, anyBroker)
		if err != nil || p == nil { // or it was never written
			results[tp] = listed(partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}, err)
			continue
		}
		results[tp] = listed(partition.OffsetResult{}, fmt.Errorf("timestamp in %s-%d: no answer from the disk: %w", tp.Topic, tp.Partition, partition.ErrTimeout))
		onDisk[r.node] = append(onDisk[r.node], offsetLookup{tp, func() (partition.OffsetResult, error) { return p.TimestampAt(offset) }})
	}
	return results, c.lookUp(ctx, results, onDisk)
}
