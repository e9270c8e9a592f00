package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// leaderOf says who leads a partition and in which epoch, -1 and -1 if nobody does or there is no
// such partition. Produce (from version 10 on) and Fetch (16) tell a client that asked the wrong
// broker, which then need not ask for metadata (KIP-951).
func (c *call) leaderOf(tp record.TopicPartition) (broker, epoch int32) {
	p, err := c.partitionOf(tp.Topic, tp.Partition)
	if err != nil {
		return -1, -1
	}
	return p.Leader, p.LeaderEpoch
}

// An endpoint is where a broker is found that an answer names as a leader.
type endpoint struct {
	address
	rack *string
}

// endpoint returns where a broker is found; false: it does not serve.
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

// hintProduce names the leaders of the partitions that were refused for not being led here.
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

// hintFetch names the leader of a partition that is not led here, or
// not in the epoch the client believes in.
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
