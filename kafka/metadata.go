package kafka

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// metadata answers who leads what. Topics that do not exist are created if the client and the server allow it; the answer has them at once.
func (c *call) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	all, err := c.s.cluster.Metadata(c.ctx)
	if err != nil {
		return nil
	}
	id := all.ClusterID
	resp.ClusterID, resp.ControllerID = &id, all.Controller
	for _, b := range all.Brokers {
		if host, port, ok := c.s.address(b.ID); ok {
			resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: b.ID, Host: host, Port: port})
		}
	}
	if req.Topics == nil || c.version == 0 && len(req.Topics) == 0 {
		for _, t := range all.Topics {
			resp.Topics = append(resp.Topics, metadataTopic(t))
		}
		slices.SortFunc(resp.Topics, func(a, b kmsg.MetadataResponseTopic) int { return cmp.Compare(*a.Topic, *b.Topic) })
		return resp
	}
	byID := map[topic.ID]string{}
	for name, t := range all.Topics {
		byID[t.ID] = name
	}
	seen := map[string]bool{}
	for _, want := range req.Topics {
		if want.Topic == nil {
			resp.Topics = append(resp.Topics, c.metadataByID(all, byID, want.TopicID))
			continue
		}
		if name := *want.Topic; !seen[name] {
			seen[name] = true
			resp.Topics = append(resp.Topics, c.metadataByName(all, name, c.version < 4 || req.AllowAutoTopicCreation))
		}
	}
	return resp
}

func (c *call) metadataByID(all replication.Metadata, byID map[topic.ID]string, id topic.ID) kmsg.MetadataResponseTopic {
	if name, ok := byID[id]; ok {
		return metadataTopic(all.Topics[name])
	}
	return kmsg.MetadataResponseTopic{TopicID: id, ErrorCode: int16(UnknownTopicID), AuthorizedOperations: noOperations}
}

func (c *call) metadataByName(all replication.Metadata, name string, create bool) kmsg.MetadataResponseTopic {
	t, ok := all.Topics[name]
	if !ok {
		err := topic.ValidateName(name)
		if err == nil && create && !c.s.cfg.NoAutoCreate {
			err = c.s.cluster.EnsureTopic(c.ctx, name, topic.Config{})
		}
		if err == nil {
			m, failed := c.s.cluster.Metadata(c.ctx, name)
			t, err = m.Topics[name], failed
		}
		if err == nil {
			err = t.Err
		}
		if err != nil {
			return kmsg.MetadataResponseTopic{Topic: &name, ErrorCode: c.errorCode(err), AuthorizedOperations: noOperations}
		}
	}
	return metadataTopic(t)
}

// noOperations says that authorized operations were not asked for or are not known.
const noOperations = -1 << 31

func metadataTopic(t replication.TopicMetadata) kmsg.MetadataResponseTopic {
	m := kmsg.MetadataResponseTopic{Topic: &t.Name, TopicID: t.ID, IsInternal: t.Internal, AuthorizedOperations: noOperations}
	for i, p := range t.Partitions {
		mp := kmsg.MetadataResponseTopicPartition{
			Partition: int32(i), Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR,
		}
		if p.Leader < 0 {
			mp.ErrorCode = int16(LeaderNotAvailable)
		}
		m.Partitions = append(m.Partitions, mp)
	}
	return m
}
