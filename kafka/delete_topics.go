package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// deleteTopics deletes topics by name, from version 6 on also by id. A topic is permanently
// deleted when the response is sent. Unlike Kafka it rejects the deletion of the coordinators'
// internal topics. From version 5 on, changes beyond the client's quota are rejected (KIP-599).
// Key 20, versions 1 to 6.
func (c *call) deleteTopics(req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := c.timeout(req.TimeoutMillis)
	defer cancel()
	wanted := req.Topics
	if c.version < 6 {
		for _, name := range req.TopicNames {
			wanted = append(wanted, kmsg.DeleteTopicsRequestTopic{Topic: &name})
		}
	}
	names, ids := map[string]int{}, map[topic.ID]int{}
	for _, t := range wanted {
		if t.Topic != nil {
			names[*t.Topic]++
		} else {
			ids[t.TopicID]++
		}
	}
	for _, t := range each(c, wanted) {
		rt := kmsg.NewDeleteTopicsResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		var err error
		if t.Topic != nil {
			n := names[*t.Topic]
			if n < 0 {
				continue
			}
			if names[*t.Topic] = -1; n > 1 {
				err = refuse(InvalidRequest, "Duplicate topic name.")
			} else {
				rt.TopicID, err = c.deleteTopic(ctx, *t.Topic, t.TopicID)
			}
		} else {
			n := ids[t.TopicID]
			if n < 0 {
				continue
			}
			if ids[t.TopicID] = -1; n > 1 {
				err = refuse(InvalidRequest, "Duplicate topic id.")
			} else {
				rt.Topic, err = c.deleteTopicByID(ctx, t.TopicID)
			}
		}
		rt.ErrorCode, rt.ErrorMessage = c.errorCode(err), errorMessage(err)
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (c *call) deleteTopic(ctx context.Context, name string, id topic.ID) (topic.ID, error) {
	if !id.IsZero() {
		return id, refuse(InvalidRequest, "You may not specify both topic name and topic id.")
	}
	id, _ = c.s.cluster.TopicID(name)
	if err := c.mutateTopic(ctx, name); err != nil {
		return id, err
	}
	return id, says(c.s.cluster.DeleteTopic(ctx, name), replication.ErrUnknownTopic, textUnknownTopic)
}

func (c *call) deleteTopicByID(ctx context.Context, id topic.ID) (*string, error) {
	if id.IsZero() {
		return nil, refuse(InvalidRequest, "Neither topic name nor id were specified.")
	}
	name, ok := c.s.cluster.TopicName(id)
	if !ok {
		return nil, refuse(UnknownTopicID, "This server does not host this topic ID.")
	}
	if err := c.mutateTopic(ctx, name); err != nil {
		return &name, err
	}
	return &name, c.s.cluster.DeleteTopic(ctx, name)
}

// mutateTopic counts the partitions of a topic that is to be deleted towards the client's quota. A
// missing topic counts nothing.
func (c *call) mutateTopic(ctx context.Context, name string) error {
	if c.quotas == nil || topic.IsInternal(name) {
		return nil
	}
	md, err := c.s.cluster.Metadata(ctx, name)
	if err != nil || md.Topics[name].Err != nil {
		return err // the deletion returns the error
	}
	return c.mutate(len(md.Topics[name].Partitions), 5)
}
