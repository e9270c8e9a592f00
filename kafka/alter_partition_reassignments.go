package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// alterPartitionReassignments moves partitions to other replicas. A null list of replicas cancels
// the move. Version 1 can forbid a change of the replication factor (KIP-860). The response is
// sent when a reassignment has begun. Key 45, versions 0 and 1.
func (c *call) alterPartitionReassignments(req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	if len(req.Topics) == 0 { // as in Kafka, whose response is then empty
		resp.AllowReplicationFactorChange, resp.ErrorMessage = true, kmsg.StringPtr("")
		return resp
	}
	ctx, cancel := c.timeout(req.TimeoutMillis)
	defer cancel()
	var wanted []replication.Reassignment
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			wanted = append(wanted, replication.Reassignment{
				Partition: record.TopicPartition{Topic: t.Topic, Partition: p.Partition}, Replicas: p.Replicas,
				SameFactor: c.version >= 1 && !req.AllowReplicationFactorChange,
			})
		}
	}
	errs := c.s.cluster.AlterPartitionReassignments(ctx, wanted...)
	for _, t := range req.Topics {
		answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		answer.Topic = t.Topic
		for _, p := range t.Partitions {
			err := errs[0]
			errs = errs[1:]
			switch {
			case errors.Is(err, replication.ErrInvalidAssignment) && p.Replicas != nil:
				if words := c.assignable(p.Replicas, 0); words != nil {
					err = words
				}
			case errors.Is(err, replication.ErrNoReassignment):
				err = noText(NoReassignmentInProgress)
			case errors.Is(err, replication.ErrUnknownTopic) && !c.hasTopic(t.Topic):
				err = refuse(UnknownTopicOrPartition, fmt.Sprintf("Unable to find a topic named %s.", t.Topic))
			case errors.Is(err, replication.ErrUnknownTopic):
				err = refuse(UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", t.Topic, p.Partition))
			}
			ap := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			ap.Partition, ap.ErrorCode, ap.ErrorMessage = p.Partition, c.errorCode(err), errorMessage(err)
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

// hasTopic reports whether a topic exists.
func (c *call) hasTopic(name string) bool {
	_, ok := c.s.cluster.TopicID(name)
	return ok
}
