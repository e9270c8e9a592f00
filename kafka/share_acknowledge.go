package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/share"
)

// shareAcknowledge serves ShareAcknowledge (key 79, KIP-932), versions 1 and 2. A member of a
// share group acknowledges records that it has acquired in its share session. Version 2 adds the
// renewal of acquisition locks, and their duration in the response.
func (c *call) shareAcknowledge(req *kmsg.ShareAcknowledgeRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ShareAcknowledgeResponse)
	refused := func(code Code) kmsg.Response {
		resp.ErrorCode = int16(code)
		return resp
	}
	key, code := c.shareMember(req.GroupID, req.MemberID)
	if code != 0 {
		return refused(code)
	}
	shares, err := c.s.cluster.Shares()
	if err != nil {
		return refused(Code(c.errorCode(err)))
	}
	plan, code := c.conn.broker.shares.acknowledge(key, req.ShareSessionEpoch)
	if code != 0 {
		return refused(code)
	}
	resp.AcquisitionLockTimeoutMillis = int32(shares.LockDuration(key.group).Milliseconds())
	var todo []shareAcks
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			of := shareAcks{part: sharePart{t.TopicID, p.Partition}}
			if _, err := c.sharePartition(of.part); err == nil && len(p.AcknowledgementBatches) == 0 {
				continue // in Kafka such a partition is in the response only with an error
			}
			for _, b := range p.AcknowledgementBatches {
				of.add(b.FirstOffset, b.LastOffset, b.AcknowledgeTypes)
			}
			todo = append(todo, of)
		}
	}
	errs := c.acknowledgeShares(shares, key.group, plan.holder, todo, req.IsRenewAck)
	if plan.final {
		if err := c.s.giveBack(c.ctx, key.group, plan.holder, plan.parts); err != nil {
			return refused(Code(c.errorCode(err)))
		}
	}
	at := map[[16]byte]int{}
	for i, of := range todo {
		k, ok := at[of.part.id]
		if !ok {
			k = len(resp.Topics)
			at[of.part.id] = k
			resp.Topics = append(resp.Topics, kmsg.ShareAcknowledgeResponseTopic{TopicID: of.part.id})
		}
		a := kmsg.NewShareAcknowledgeResponseTopicPartition()
		a.Partition, a.ErrorCode, a.ErrorMessage = of.part.number, c.shareCode(errs[i]), errorMessage(errs[i])
		a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch = c.shareLeader(Code(a.ErrorCode), of.part)
		resp.Topics[k].Partitions = append(resp.Topics[k].Partitions, a)
		if id := a.CurrentLeader.LeaderID; id > 0 {
			c.addShareEndpoint(id, func(at endpoint) {
				for _, known := range resp.NodeEndpoints {
					if known.NodeID == id {
						return
					}
				}
				resp.NodeEndpoints = append(resp.NodeEndpoints, kmsg.ShareAcknowledgeResponseNodeEndpoint{NodeID: id, Host: at.host, Port: at.port, Rack: at.rack})
			})
		}
	}
	return resp
}

// shareAcks has the acknowledgements of a member for one partition.
type shareAcks struct {
	part sharePart
	acks []share.Ack
}

func (a *shareAcks) add(first, last int64, types []int8) {
	ack := share.Ack{First: first, Last: last}
	for _, t := range types {
		ack.Types = append(ack.Types, share.AckType(t))
	}
	a.acks = append(a.acks, ack)
}

// renews reports whether any of the acknowledgements is a renewal.
func (a *shareAcks) renews() bool {
	for _, ack := range a.acks {
		for _, t := range ack.Types {
			if t == share.Renew {
				return true
			}
		}
	}
	return false
}

// acknowledgedAtOnce is the number of partitions of a request that are acknowledged concurrently,
// since each acknowledgement waits for the disk.
const acknowledgedAtOnce = 16

// acknowledgeShares applies a member's acknowledgements of records acquired in a session. It
// returns an error or nil for each partition.
func (c *call) acknowledgeShares(shares *share.Coordinator, group, holder string, todo []shareAcks, renew bool) []error {
	errs := make([]error, len(todo))
	var wg sync.WaitGroup
	room := make(chan struct{}, acknowledgedAtOnce)
	for i, of := range todo {
		if of.renews() && !renew {
			errs[i] = refuse(InvalidRequest, "The request does not say that it renews.")
			continue
		}
		// As in Kafka, malformed acknowledgements are reported before a missing partition.
		if _, known := c.s.cluster.TopicName(of.part.id); known && share.CheckAcks(of.acks) != nil {
			errs[i] = noText(InvalidRequest)
		}
		var tp share.TopicPartition
		if errs[i] == nil {
			tp, errs[i] = c.sharePartition(of.part)
		}
		if errs[i] != nil {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			errs[i] = says(shares.Acknowledge(c.ctx, group, holder, tp, of.acks), share.ErrRenewalDisabled, "Renewing acquisition locks is not enabled for the group.")
		})
	}
	wg.Wait()
	return errs
}
