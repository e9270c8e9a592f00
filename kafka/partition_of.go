package kafka

import (
	"errors"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// partitionOf returns the metadata of a partition, or an error with UNKNOWN_TOPIC_OR_PARTITION.
func (c *call) partitionOf(name string, p int32) (replication.PartitionMetadata, error) {
	md, err := c.s.cluster.PartitionMetadata(c.ctx, record.TopicPartition{Topic: name, Partition: p})
	if errors.Is(err, replication.ErrUnknownTopic) {
		err = refuse(UnknownTopicOrPartition, "There is no such partition.")
	}
	return md, err
}
