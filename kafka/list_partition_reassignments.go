package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// listPartitionReassignments lists nothing: a reassignment is done when it is answered.
func (c *call) listPartitionReassignments(req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	return req.ResponseKind()
}
