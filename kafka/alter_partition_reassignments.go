package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
)

// alterPartitionReassignments moves partitions to other replicas. They cannot be moved yet: the
// replicas that a partition has are accepted, others refused, and there is never a reassignment to
// cancel.
func (c *call) alterPartitionReassignments(req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	for _, t := range req.Topics {
		answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		answer.Topic = t.Topic
		for _, p := range t.Partitions {
			err := c.reassign(t.Topic, p)
			ap := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			ap.Partition, ap.ErrorCode, ap.ErrorMessage = p.Partition, c.errorCode(err), errorMessage(err)
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

func (c *call) reassign(name string, p kmsg.AlterPartitionAssignmentsRequestTopicPartition) error {
	has, err := c.partitionOf(name, p.Partition)
	switch {
	case err != nil:
		return err
	case p.Replicas == nil:
		return refuse(NoReassignmentInProgress, "No partition reassignment is in progress.")
	}
	if err := c.assignable(p.Replicas); err != nil {
		return err
	}
	if !slices.Equal(p.Replicas, has.Replicas) {
		return refuse(InvalidReplicaAssignment, "Replicas cannot be moved.")
	}
	return nil
}

// partitionOf returns the metadata of a partition, or replication.ErrUnknownTopic.
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
