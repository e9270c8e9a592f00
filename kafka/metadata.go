package kafka

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// noOperations is the value of authorized operations (KIP-430) that were not requested.
const noOperations = -1 << 31

// noTopic selects no topic, for callers that need the brokers only: a call without names selects
// all topics.
const noTopic = ""

// metadata returns the brokers and the leaders of partitions. Version 0 requests all topics with
// an empty list, later versions with null. Version 10 returns topic ids, and 12 accepts them.
// Missing topics are created if the client and the server allow it; the client can disallow it
// from version 4 on. The response has the created topics already, while in Kafka the client has to
// repeat the request. Key 3, versions 0 to 13.
//
// For topics without permission Describe, the response does not show whether they exist; a request
// for all topics omits them. To create a topic the client needs Create of the cluster or of the
// topic.
func (c *call) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.AuthorizedOperations = noOperations
	for _, t := range req.Topics {
		switch zero := topic.ID(t.TopicID).IsZero(); {
		case c.version < 12 && (!zero || t.Topic == nil):
			return refusedMetadata(req, resp, InvalidRequest)
		case zero && t.Topic == nil:
			return refusedMetadata(req, resp, UnknownServerError)
		}
	}
	names, everything := c.metadataNames(req)
	known, err := c.s.cluster.Metadata(c.ctx, names...)
	if err != nil {
		return c.hangUp()
	}
	resp.ClusterID, resp.ControllerID = &known.ClusterID, known.Controller
	who := c.brokersSeen(known)
	for _, b := range known.Brokers {
		if host, port, ok := c.address(b.ID); ok {
			resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: b.ID, Host: host, Port: port, Rack: rack(b.Rack)})
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = c.onCluster()
	}
	if everything {
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(known.Topics))
		for _, t := range known.Topics {
			if !c.allows(acl.Describe, acl.Topic, t.Name) {
				continue
			}
			resp.Topics = append(resp.Topics, who.topic(t))
		}
		slices.SortFunc(resp.Topics, func(a, b kmsg.MetadataResponseTopic) int { return cmp.Compare(*a.Topic, *b.Topic) })
	} else {
		c.metadataTopics(req, resp, known, who)
	}
	for i := range resp.Topics {
		if resp.Topics[i].AuthorizedOperations = noOperations; req.IncludeTopicAuthorizedOperations && resp.Topics[i].Topic != nil && Code(resp.Topics[i].ErrorCode) != TopicAuthorizationFailed {
			resp.Topics[i].AuthorizedOperations = c.operations(acl.Topic, *resp.Topics[i].Topic)
		}
	}
	return resp
}

// metadataNames returns the topics of a request for replication.Cluster.Metadata. everything is
// true for all topics; then names is empty.
func (c *call) metadataNames(req *kmsg.MetadataRequest) (names []string, everything bool) {
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		return nil, true
	}
	for _, t := range req.Topics {
		switch {
		case !topic.ID(t.TopicID).IsZero(): // also if it has a name: the Java client sends an empty one
			name, _ := c.s.cluster.TopicName(t.TopicID)
			names = append(names, name)
		case t.Topic != nil:
			names = append(names, *t.Topic)
		}
	}
	if len(names) == 0 {
		names = []string{noTopic}
	}
	return names, false
}

// Approximate bytes of a topic and of a partition: in an encoded response to Metadata, and while
// it is built.
const (
	metadataTopicBytes, metadataPartitionBytes           = 64, 50
	metadataTopicBuildBytes, metadataPartitionBuildBytes = 512, 300
)

// metadataSize returns the approximate size of the response to a request, and the approximate
// number of bytes that its handler allocates for it.
func (c *call) metadataSize(req *kmsg.MetadataRequest) (answer, work int) {
	names, _ := c.metadataNames(req)
	topics, partitions := c.s.cluster.MetadataSize(names...)
	return topics*metadataTopicBytes + partitions*metadataPartitionBytes, topics*metadataTopicBuildBytes + partitions*metadataPartitionBuildBytes
}

// rack returns a broker's rack in the form of the protocol: null if it has none.
func rack(name string) *string { return nonEmpty(name) }

// maxAutoCreated is the number of names in a request after which no more topics are created.
const maxAutoCreated = 1000

// metadataTopics adds each requested topic once.
func (c *call) metadataTopics(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, known replication.Metadata, who brokersSeen) {
	names, ids := map[string]bool{}, map[topic.ID]bool{}
	create := (c.version < 4 || req.AllowAutoTopicCreation) && !c.s.cfg.NoAutoCreate
	for _, t := range each(c, req.Topics) {
		switch id := topic.ID(t.TopicID); {
		case t.Topic == nil || !id.IsZero():
			if !ids[id] {
				ids[id] = true
				resp.Topics = append(resp.Topics, c.metadataByID(known, id, who))
			}
		case !names[*t.Topic]:
			names[*t.Topic] = true
			if len(names) > maxAutoCreated {
				create = false // the client repeats the request for the others
			}
			resp.Topics = append(resp.Topics, c.metadataByName(known, *t.Topic, create, who))
		}
	}
}

// refusedMetadata answers a request with a topic that has neither name nor id, or an id that its
// version does not support. As in Kafka, each topic has the error, and all other fields are empty.
func refusedMetadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, code Code) kmsg.Response {
	for _, t := range req.Topics {
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		resp.Topics = append(resp.Topics, kmsg.MetadataResponseTopic{
			Topic: &name, TopicID: t.TopicID, ErrorCode: int16(code), AuthorizedOperations: noOperations,
		})
	}
	return resp
}

func (c *call) metadataByID(known replication.Metadata, id topic.ID, who brokersSeen) kmsg.MetadataResponseTopic {
	name, ok := c.s.cluster.TopicName(id)
	if ok && !c.allows(acl.Describe, acl.Topic, name) {
		return kmsg.MetadataResponseTopic{TopicID: id, ErrorCode: int16(TopicAuthorizationFailed)}
	}
	if t, found := known.Topics[name]; ok && found && t.ID == id {
		return who.topic(t)
	}
	return kmsg.MetadataResponseTopic{TopicID: id, ErrorCode: int16(UnknownTopicID)}
}

func (c *call) metadataByName(known replication.Metadata, name string, create bool, who brokersSeen) kmsg.MetadataResponseTopic {
	if !c.allows(acl.Describe, acl.Topic, name) {
		return kmsg.MetadataResponseTopic{Topic: &name, ErrorCode: int16(TopicAuthorizationFailed)}
	}
	t := known.Topics[name]
	err := t.Err
	if err != nil && create && !c.mayCluster(acl.Create) && !c.allows(acl.Create, acl.Topic, name) {
		return kmsg.MetadataResponseTopic{Topic: &name, ErrorCode: int16(TopicAuthorizationFailed), IsInternal: topic.IsInternal(name)}
	}
	if err != nil && create && topic.ValidateName(name) == nil {
		t, err = c.autoCreate(name)
	}
	if err == nil {
		return who.topic(t)
	}
	return kmsg.MetadataResponseTopic{Topic: &name, ErrorCode: c.errorCode(err), IsInternal: topic.IsInternal(name)}
}

// autoCreate creates a topic that a client has requested. The offsets topic gets the configuration
// that its coordinator needs.
func (c *call) autoCreate(name string) (replication.TopicMetadata, error) {
	var err error
	switch {
	case name == offsets.Topic:
		_, err = c.s.cluster.OffsetsPartition(c.ctx, "", true)
	case topic.IsInternal(name), name == topic.MetadataTopic:
		err = replication.ErrUnknownTopic // created by its coordinator only, or no topic
	default:
		err = c.s.cluster.EnsureTopic(c.ctx, name, topic.Config{})
	}
	if err != nil {
		return replication.TopicMetadata{}, err
	}
	md, err := c.s.cluster.Metadata(c.ctx, name)
	if err != nil {
		return replication.TopicMetadata{}, err
	}
	return md.Topics[name], md.Topics[name].Err
}

// brokersSeen are the brokers that serve, for a response of one version.
type brokersSeen struct {
	version   int16          // of Metadata
	reachable map[int32]bool // by id; false: the broker serves but has no listener for the client
}

func (c *call) brokersSeen(known replication.Metadata) brokersSeen {
	who := brokersSeen{version: c.version, reachable: make(map[int32]bool, len(known.Brokers))}
	for _, b := range known.Brokers {
		_, _, who.reachable[b.ID] = c.address(b.ID)
	}
	return who
}

func (w brokersSeen) topic(t replication.TopicMetadata) kmsg.MetadataResponseTopic {
	m := kmsg.MetadataResponseTopic{Topic: &t.Name, TopicID: t.ID, IsInternal: t.Internal}
	m.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, p := range t.Partitions {
		m.Partitions[i] = w.partition(int32(i), p)
	}
	return m
}

// partition describes one partition. If clients cannot reach the leader, the partition has none
// for them. Kafka: KRaftMetadataCache.partitionMetadata.
func (w brokersSeen) partition(n int32, p replication.PartitionMetadata) kmsg.MetadataResponseTopicPartition {
	m := kmsg.MetadataResponseTopicPartition{
		Partition: n, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR,
		OfflineReplicas: w.offline(p.Replicas),
	}
	if !w.reachable[p.Leader] {
		m.Leader, m.ErrorCode = -1, int16(LeaderNotAvailable)
		if _, serves := w.reachable[p.Leader]; serves && w.version >= 6 {
			m.ErrorCode = int16(ListenerNotFound)
		}
	}
	if w.version == 0 { // it has no field for offline replicas: they are left out
		m.Replicas, m.ISR = w.online(p.Replicas), w.online(p.ISR)
	}
	return m
}

// offline returns the replicas whose brokers do not serve; nil if there are none.
func (w brokersSeen) offline(replicas []int32) (away []int32) {
	for _, id := range replicas {
		if _, serves := w.reachable[id]; !serves {
			away = append(away, id)
		}
	}
	return away
}

// online returns the replicas whose brokers can be reached.
func (w brokersSeen) online(replicas []int32) []int32 {
	there := make([]int32, 0, len(replicas))
	for _, id := range replicas {
		if w.reachable[id] {
			there = append(there, id)
		}
	}
	return there
}

// hangUp closes the connection instead of answering, because the cluster is closing: that is the
// clearest signal for a client.
func (c *call) hangUp() kmsg.Response {
	c.closing = true
	return nil
}
