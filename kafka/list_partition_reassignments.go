package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

// listPartitionReassignments lists the partitions whose replicas are being reassigned: all of
// them, or only the requested ones. Missing partitions are left out. Key 46, version 0.
func (c *call) listPartitionReassignments(req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	under, err := c.s.cluster.PartitionReassignments()
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	listed := map[record.TopicPartition]bool{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			listed[record.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	for _, o := range under {
		if req.Topics != nil && !listed[o.Partition] {
			continue
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != o.Partition.Topic {
			t := kmsg.NewListPartitionReassignmentsResponseTopic()
			t.Topic = o.Partition.Topic
			resp.Topics = append(resp.Topics, t)
		}
		p := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas = o.Partition.Partition, o.Replicas, o.Adding, o.Removing
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return resp
}
