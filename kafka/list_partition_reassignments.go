package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
)

// listPartitionReassignments lists the partitions that are on their way to other replicas: of the
// named ones, or all of them. Key 46, version 0. Partitions that are not there are left out.
func (c *call) listPartitionReassignments(req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	under, err := c.s.cluster.PartitionReassignments()
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	for _, o := range under {
		if !isListed(req, o) {
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

// isListed reports whether a request asks for a partition.
func isListed(req *kmsg.ListPartitionReassignmentsRequest, o replication.OngoingReassignment) bool {
	return req.Topics == nil || slices.ContainsFunc(req.Topics, func(t kmsg.ListPartitionReassignmentsRequestTopic) bool {
		return t.Topic == o.Partition.Topic && slices.Contains(t.Partitions, o.Partition.Partition)
	})
}
