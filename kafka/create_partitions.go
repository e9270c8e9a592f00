package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// createPartitions adds partitions to topics; with validate_only it only checks the request. From
// version 3 on, changes beyond the client's quota are rejected (KIP-599). Key 37, versions 0 to 3.
func (c *call) createPartitions(req *kmsg.CreatePartitionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	ctx, cancel := c.timeout(req.TimeoutMillis)
	defer cancel()
	times := map[string]int{}
	for _, t := range req.Topics {
		times[t.Topic]++
	}
	for _, t := range each(c, req.Topics) {
		var err error
		switch n := times[t.Topic]; {
		case n < 0:
			continue
		case n > 1:
			err = refuse(InvalidRequest, "Duplicate topic name.")
		default:
			err = c.growTopic(ctx, t, req.ValidateOnly)
		}
		times[t.Topic] = -1
		rt := kmsg.NewCreatePartitionsResponseTopic()
		rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, c.errorCode(err), errorMessage(err)
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (c *call) growTopic(ctx context.Context, t kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	md, err := c.s.cluster.Metadata(ctx, t.Topic)
	if err != nil {
		return err
	}
	have := md.Topics[t.Topic]
	if have.Err != nil { // an invalid name is unknown, too
		return noText(UnknownTopicOrPartition)
	}
	total := int(t.Count)
	switch n := len(have.Partitions); {
	case total == n:
		return refuse(InvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", n))
	case total < n:
		return refuse(InvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", t.Topic, n, total))
	}
	var assignment [][]int32
	if added := total - len(have.Partitions); added > 0 && t.Assignment != nil {
		if len(t.Assignment) != added {
			return refuse(InvalidReplicaAssignment, fmt.Sprintf("Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", added, len(t.Assignment)))
		}
		for _, a := range t.Assignment {
			if err := c.assignable(a.Replicas, len(have.Partitions[0].Replicas)); err != nil {
				return err
			}
			assignment = append(assignment, a.Replicas)
		}
	}
	if c.quotas != nil {
		if err := c.s.cluster.DryRun().AddPartitions(ctx, t.Topic, total, assignment...); err != nil {
			return err
		}
		if err := c.mutate(total-len(have.Partitions), 3); err != nil {
			return err
		}
	}
	if validateOnly {
		return c.s.cluster.DryRun().AddPartitions(ctx, t.Topic, total, assignment...)
	}
	return c.s.cluster.AddPartitions(ctx, t.Topic, total, assignment...)
}
