package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

// describeQuorum describes the replicas of the metadata: every serving broker is a voter, and the
// controller is the leader. A change is committed when all voters have it, so all logs end at the
// metadata's version. There are no observers, because all brokers read the same memory. Key 55,
// versions 0 to 2.
func (c *call) describeQuorum(req *kmsg.DescribeQuorumRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	resp.ErrorMessage = kmsg.StringPtr("") // as in Kafka, which does not set it
	found := false
	stats, controller := c.s.cluster.Cluster.Stats(), c.s.cluster.Controller()
	for _, t := range each(c, req.Topics) {
		answer := kmsg.NewDescribeQuorumResponseTopic()
		answer.Topic = t.Topic
		for _, p := range each(c, t.Partitions) {
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
