package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

// describeQuorum describes who holds the metadata: every broker that serves is a voter, the
// controller their leader. A change counts when all have it, so their logs are as far as the
// metadata's version. There are no observers: brokers read the same memory.
// Key 55, versions 0 to 2.
func (c *call) describeQuorum(req *kmsg.DescribeQuorumRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	resp.ErrorMessage = kmsg.StringPtr("") // as in Kafka, where nobody sets it
	found := false
	stats, controller := c.s.cluster.Cluster.Stats(), c.s.cluster.Controller()
	for _, t := range req.Topics {
		answer := kmsg.NewDescribeQuorumResponseTopic()
		answer.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewDescribeQuorumResponseTopicPartition()
			ap.Partition = p.Partition
			if t.Topic != topic.MetadataTopic || p.Partition != 0 {
				ap.ErrorCode, ap.ErrorMessage = int16(UnknownTopicOrPartition), kmsg.StringPtr(textUnknownTopic)
			} else {
				found = true
				now := time.Now().UnixMilli()
				for _, id := range c.s.cluster.Brokers() {
					voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
					voter.ReplicaID, voter.LogEndOffset, voter.LastFetchTimestamp, voter.LastCaughtUpTimestamp = id, stats.MetadataVersion, now, now
					ap.CurrentVoters = append(ap.CurrentVoters, voter)
				}
				ap.LeaderID, ap.LeaderEpoch, ap.HighWatermark = controller, stats.ControllerEpoch, stats.MetadataVersion
			}
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	if host, port, ok := c.address(controller); ok && found {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = controller
		node.Listeners = []kmsg.DescribeQuorumResponseNodeListener{{Name: "CONTROLLER", Host: host, Port: uint16(port)}}
		resp.Nodes = append(resp.Nodes, node)
	}
	return resp
}
