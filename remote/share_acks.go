package remote

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/share"
)

// A shareAck is a call of Acknowledge.
type shareAck struct {
	tp    share.TopicPartition
	acks  []share.Ack
	ended chan struct{} // closed when err is set
	err   error
}

// renews reports whether the acknowledgement extends locks: requests have a field for that.
func (a *shareAck) renews() bool {
	return slices.ContainsFunc(a.acks, func(one share.Ack) bool { return slices.Contains(one.Types, share.Renew) })
}

// overlaps reports whether both are about a record of the same partition.
func (a *shareAck) overlaps(b *shareAck) bool {
	return a.tp == b.tp && slices.ContainsFunc(a.acks, func(x share.Ack) bool {
		return slices.ContainsFunc(b.acks, func(y share.Ack) bool { return x.First <= y.Last && y.First <= x.Last })
	})
}

// splitAcks returns the first acknowledgements, as many as one request can have: only renewals or
// none, and each record once. Two of the same record keep their order.
func splitAcks(acks []*shareAck) (first, rest []*shareAck) {
	type part struct {
		acks []*shareAck
		last int64 // highest offset
	}
	taken := map[share.TopicPartition]part{}
	for i, a := range acks {
		p, ok := taken[a.tp]
		if a.renews() != acks[0].renews() || ok && a.acks[0].First <= p.last && slices.ContainsFunc(p.acks, a.overlaps) {
			return acks[:i], acks[i:]
		}
		p.acks, p.last = append(p.acks, a), max(p.last, a.acks[len(a.acks)-1].Last)
		taken[a.tp] = p
	}
	return acks, nil
}

// acknowledgeRequest builds a request with the batches of each partition in the order of their
// offsets.
func acknowledgeRequest(acks []*shareAck) *kmsg.ShareAcknowledgeRequest {
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.IsRenewAck = acks[0].renews()
	topics, partitions := index[[16]byte]{}, map[share.TopicPartition]int{}
	for _, a := range acks {
		i, first := topics.of(a.tp.TopicID)
		if first {
			t := kmsg.NewShareAcknowledgeRequestTopic()
			t.TopicID = a.tp.TopicID
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[i]
		k, ok := partitions[a.tp]
		if !ok {
			k = len(t.Partitions)
			partitions[a.tp] = k
			p := kmsg.NewShareAcknowledgeRequestTopicPartition()
			p.Partition = a.tp.Partition
			t.Partitions = append(t.Partitions, p)
		}
		for _, one := range a.acks {
			b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
			b.FirstOffset, b.LastOffset = one.First, one.Last
			for _, kind := range one.Types {
				b.AcknowledgeTypes = append(b.AcknowledgeTypes, int8(kind))
			}
			t.Partitions[k].AcknowledgementBatches = append(t.Partitions[k].AcknowledgementBatches, b)
		}
	}
	for i := range req.Topics {
		for k := range req.Topics[i].Partitions {
			slices.SortFunc(req.Topics[i].Partitions[k].AcknowledgementBatches, func(a, b kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch) int {
				return cmp.Compare(a.FirstOffset, b.FirstOffset)
			})
		}
	}
	return req
}
