package kafka

import (
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// partitionOf returns the metadata of a partition, or an error with UNKNOWN_TOPIC_OR_PARTITION.
func (c *call) partitionOf(name string, p int32) (replication.PartitionMetadata, error) {
	md, ok, err := c.s.cluster.PartitionMetadata(c.ctx, record.TopicPartition{Topic: name, Partition: p})
	if err == nil && !ok {
		err = refuse(UnknownTopicOrPartition, "There is no such partition.")
	}
	return md, err
}
