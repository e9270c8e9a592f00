package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/topic"
)

// guardProduce requires Write on the transactional id, if the request has a batch of a
// transaction, and on each topic. If hasTransaction finds malformed records, the handler rejects
// the whole request. A request without a response (acks 0) gets its connection closed, as for any
// error of a partition.
func guardProduce(c *call, req *kmsg.ProduceRequest) kmsg.Response {
	transaction, err := hasTransaction(req)
	if err != nil {
		return nil
	}
	code := TopicAuthorizationFailed
	var denied []kmsg.ProduceRequestTopic
	if transaction && (req.TransactionID == nil || !c.allows(acl.Write, acl.TransactionalID, *req.TransactionID)) {
		code, req.Topics, denied = TransactionalIDAuthorizationFailed, nil, req.Topics
	} else {
		req.Topics, denied = split(req.Topics, func(t *kmsg.ProduceRequestTopic) bool {
			name, known := c.topicByID(t.Topic, t.TopicID, 13)
			return !known || c.allows(acl.Write, acl.Topic, name)
		})
	}
	denied = slices.DeleteFunc(denied, func(t kmsg.ProduceRequestTopic) bool { return len(t.Partitions) == 0 })
	if len(denied) == 0 {
		return nil
	}
	add := func(resp *kmsg.ProduceResponse) {
		for _, t := range denied {
			rt := kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.ErrorMessage = p.Partition, int16(code), authorizationText(code)
				rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = -1, -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	switch {
	case len(req.Topics) > 0 && req.Acks == 0:
		c.refused = true
		return nil
	case req.Acks == 0:
		c.closing = true
		return nil
	case len(req.Topics) > 0:
		return then(c, add)
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	add(resp)
	return resp
}

// mayRead returns the error code of a fetch of a topic, 0 if it is permitted. A fetch with the
// replica id of a follower (0 or above) needs ClusterAction on the cluster.
func (c *call) mayRead(name string, replica int32) Code {
	switch {
	case c.may == nil:
	case replica >= 0 && !c.mayCluster(acl.ClusterAction), replica < 0 && !c.allows(acl.Read, acl.Topic, name):
		return TopicAuthorizationFailed
	}
	return 0
}

func guardListOffsets(c *call, req *kmsg.ListOffsetsRequest) (_ kmsg.Response) {
	var denied []kmsg.ListOffsetsRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.ListOffsetsRequestTopic) bool { return c.allows(acl.Describe, acl.Topic, t.Topic) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.ListOffsetsResponse) {
		for _, t := range denied {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, int16(TopicAuthorizationFailed)
				rp.Timestamp, rp.Offset, rp.LeaderEpoch = -1, -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
}

func guardOffsetForLeaderEpoch(c *call, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	if c.mayCluster(acl.ClusterAction) {
		return nil
	}
	var denied []kmsg.OffsetForLeaderEpochRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.OffsetForLeaderEpochRequestTopic) bool { return c.allows(acl.Describe, acl.Topic, t.Topic) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.OffsetForLeaderEpochResponse) {
		for _, t := range denied {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.LeaderEpoch, rp.EndOffset = p.Partition, int16(TopicAuthorizationFailed), -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
}

// guardCreateTopics requires Create on the cluster or on each topic. The shape and configuration
// of a new topic are returned only to clients with DescribeConfigs on it. The handler rejects the
// metadata topic and duplicates, whatever the permissions.
func guardCreateTopics(c *call, req *kmsg.CreateTopicsRequest) kmsg.Response {
	all := c.mayCluster(acl.Create)
	times := map[string]int{}
	for _, t := range req.Topics {
		times[t.Topic]++
	}
	var denied []kmsg.CreateTopicsRequestTopic
	req.Topics, denied = split(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) bool {
		return all || times[t.Topic] > 1 || t.Topic == topic.MetadataTopic || c.allows(acl.Create, acl.Topic, t.Topic)
	})
	return then(c, func(resp *kmsg.CreateTopicsResponse) {
		for i := range resp.Topics {
			if t := &resp.Topics[i]; t.ErrorCode == 0 && c.version >= 5 && !c.allows(acl.DescribeConfigs, acl.Topic, t.Topic) {
				t.ConfigErrorCode, t.Configs = int16(TopicAuthorizationFailed), []kmsg.CreateTopicsResponseTopicConfig{}
				t.NumPartitions, t.ReplicationFactor = -1, -1
			}
		}
		for _, t := range denied {
			resp.Topics = append(resp.Topics, c.notCreated(t.Topic, refuse(TopicAuthorizationFailed, "Authorization failed.")))
		}
	})
}

// guardDeleteTopics requires Delete on the cluster or on each topic. Without Describe on a topic,
// the response reveals neither its existence nor the name for an id.
func guardDeleteTopics(c *call, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	if c.mayCluster(acl.Delete) {
		return nil
	}
	if c.version < 6 {
		return guardDeleteNames(c, req)
	}
	names, ids := map[string]int{}, map[[16]byte]int{}
	for _, t := range req.Topics {
		if t.Topic != nil {
			names[*t.Topic]++
		} else {
			ids[t.TopicID]++
		}
	}
	var refused []kmsg.DeleteTopicsResponseTopic
	kept, _ := split(req.Topics, func(t *kmsg.DeleteTopicsRequestTopic) bool {
		rt := kmsg.NewDeleteTopicsResponseTopic()
		rt.ErrorCode, rt.ErrorMessage = int16(TopicAuthorizationFailed), authorizationText(TopicAuthorizationFailed)
		switch {
		case t.Topic == nil && ids[t.TopicID] == 1:
			name, known := c.s.cluster.TopicName(t.TopicID)
			if !known || c.allows(acl.Delete, acl.Topic, name) {
				return true
			}
			if rt.TopicID = t.TopicID; c.allows(acl.Describe, acl.Topic, name) {
				rt.Topic = &name
			}
		case t.Topic != nil && names[*t.Topic] == 1 && topic.ID(t.TopicID).IsZero():
			if c.mayDeleteName(*t.Topic) {
				return true
			}
			rt.Topic = t.Topic
		default:
			return true // malformed or a duplicate: the handler rejects it
		}
		refused = append(refused, rt)
		return false
	})
	req.Topics = kept
	return c.addDeletions(refused)
}

// mayDeleteName reports whether the handler gets a name. It does if the client may delete the
// topic. A missing topic needs Describe only, for an error that it does not exist.
func (c *call) mayDeleteName(name string) bool {
	if c.allows(acl.Delete, acl.Topic, name) {
		return true
	}
	_, known := c.s.cluster.TopicID(name)
	return !known && c.allows(acl.Describe, acl.Topic, name)
}

func guardDeleteNames(c *call, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	times := map[string]int{}
	for _, name := range req.TopicNames {
		times[name]++
	}
	var refused []kmsg.DeleteTopicsResponseTopic
	kept, _ := split(req.TopicNames, func(name *string) bool {
		if times[*name] > 1 || c.mayDeleteName(*name) {
			return true
		}
		rt := kmsg.NewDeleteTopicsResponseTopic()
		rt.Topic, rt.ErrorCode, rt.ErrorMessage = name, int16(TopicAuthorizationFailed), authorizationText(TopicAuthorizationFailed)
		refused = append(refused, rt)
		return false
	})
	req.TopicNames = kept
	return c.addDeletions(refused)
}

func (c *call) addDeletions(refused []kmsg.DeleteTopicsResponseTopic) kmsg.Response {
	if len(refused) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.DeleteTopicsResponse) { resp.Topics = append(resp.Topics, refused...) })
}

func guardDeleteRecords(c *call, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	var denied []kmsg.DeleteRecordsRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.DeleteRecordsRequestTopic) bool { return c.allows(acl.Delete, acl.Topic, t.Topic) }); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.DeleteRecordsResponse) {
		for _, t := range denied {
			rt := kmsg.NewDeleteRecordsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewDeleteRecordsResponseTopicPartition()
				rp.Partition, rp.LowWatermark, rp.ErrorCode = p.Partition, -1, int16(TopicAuthorizationFailed)
				rt.Partitions = append(rt.Partitions, rp)
			}
			if len(t.Partitions) > 0 {
				resp.Topics = append(resp.Topics, rt)
			}
		}
	})
}

func guardCreatePartitions(c *call, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	times := map[string]int{}
	for _, t := range req.Topics {
		times[t.Topic]++
	}
	var denied []kmsg.CreatePartitionsRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) bool {
		return times[t.Topic] > 1 || c.allows(acl.Alter, acl.Topic, t.Topic)
	}); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.CreatePartitionsResponse) {
		for _, t := range denied {
			rt := kmsg.NewCreatePartitionsResponseTopic()
			rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, int16(TopicAuthorizationFailed), authorizationText(TopicAuthorizationFailed)
			resp.Topics = append(resp.Topics, rt)
		}
	})
}

// guardDescribeProducers requires Read on each topic. Invalid names are left to the handler,
// because Kafka validates names first.
func guardDescribeProducers(c *call, req *kmsg.DescribeProducersRequest) kmsg.Response {
	var denied []kmsg.DescribeProducersRequestTopic
	if req.Topics, denied = split(req.Topics, func(t *kmsg.DescribeProducersRequestTopic) bool {
		return topic.ValidateName(t.Topic) != nil || c.allows(acl.Read, acl.Topic, t.Topic)
	}); len(denied) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.DescribeProducersResponse) {
		for _, t := range denied {
			rt := kmsg.NewDescribeProducersResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewDescribeProducersResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.ErrorMessage = p, int16(TopicAuthorizationFailed), authorizationText(TopicAuthorizationFailed)
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
}
