package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// leaderOf returns the leader of a partition and its epoch; -1 and -1 if there is no leader or no
// such partition. Produce (from version 10 on) and Fetch (16) return them if another broker leads,
// so that the client need not request metadata (KIP-951).
func (c *call) leaderOf(tp record.TopicPartition) (broker, epoch int32) {
	p, err := c.partitionOf(tp.Topic, tp.Partition)
	if err != nil {
		return -1, -1
	}
	return p.Leader, p.LeaderEpoch
}

// An endpoint is the address and rack of a broker that a response names as leader.
type endpoint struct {
	address
	rack *string
}

// endpoint returns the endpoint of a broker; ok is false if the broker is not served.
func (c *call) endpoint(id int32) (at endpoint, ok bool) {
	known, err := c.s.cluster.Metadata(c.ctx, noTopic)
	i := slices.IndexFunc(known.Brokers, func(b replication.Broker) bool { return b.ID == id })
	if err != nil || i < 0 {
		return at, false
	}
	at.rack = rack(known.Brokers[i].Rack)
	at.host, at.port, ok = c.address(id)
	return at, ok
}

// hintProduce adds the leaders of partitions that were rejected because another broker leads them.
func (c *call) hintProduce(resp *kmsg.ProduceResponse, name func(t *kmsg.ProduceResponseTopic) string) {
	if c.version < 10 {
		return
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if Code(p.ErrorCode) != NotLeaderOrFollower {
				continue
			}
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = c.leaderOf(record.TopicPartition{Topic: name(t), Partition: p.Partition})
			known := slices.ContainsFunc(resp.Brokers, func(b kmsg.ProduceResponseBroker) bool { return b.NodeID == p.CurrentLeader.LeaderID })
			if known {
				continue
			}
			if at, ok := c.endpoint(p.CurrentLeader.LeaderID); ok {
				resp.Brokers = append(resp.Brokers, kmsg.ProduceResponseBroker{NodeID: p.CurrentLeader.LeaderID, Host: at.host, Port: at.port, Rack: at.rack})
			}
		}
	}
}

// hintFetch adds the leader of a partition if another broker leads it, or if the client's leader
// epoch is old.
func (c *call) hintFetch(tp record.TopicPartition, a *kmsg.FetchResponseTopicPartition) {
	if c.version >= 16 && (Code(a.ErrorCode) == NotLeaderOrFollower || Code(a.ErrorCode) == FencedLeaderEpoch) {
		a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch = c.leaderOf(tp)
	}
}

// addHinted adds the addresses of the brokers that a fetch answer names as leaders.
func (c *call) addHinted(resp *kmsg.FetchResponse) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			id := resp.Topics[i].Partitions[j].CurrentLeader.LeaderID
			if id < 0 || slices.ContainsFunc(resp.Brokers, func(b kmsg.FetchResponseBroker) bool { return b.NodeID == id }) {
				continue
			}
			if at, ok := c.endpoint(id); ok {
				resp.Brokers = append(resp.Brokers, kmsg.FetchResponseBroker{NodeID: id, Host: at.host, Port: at.port, Rack: at.rack})
			}
		}
	}
}
