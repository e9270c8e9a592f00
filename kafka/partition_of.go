package kafka

import "github.com/stratalog/strata/replication"

// partitionOf returns the metadata of a partition, or an error with UNKNOWN_TOPIC_OR_PARTITION.
func (c *call) partitionOf(name string, p int32) (replication.PartitionMetadata, error) {
	md, err := c.s.cluster.Metadata(c.ctx, name)
	if err != nil {
		return replication.PartitionMetadata{}, err
	}
	t := md.Topics[name]
	if t.Err != nil || p < 0 || int(p) >= len(t.Partitions) {
		return replication.PartitionMetadata{}, refuse(UnknownTopicOrPartition, "There is no such partition.")
	}
	return t.Partitions[p], nil
}
