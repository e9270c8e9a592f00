package kafka

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sharedRecords is the size in bytes from which a partition's records are written from the buffer
// that they were read into. Smaller ones are copied into the response.
const sharedRecords = 8 << 10

// fetchEncoder encodes a fetch response as kmsg does, except that large records become separate
// pieces.
type fetchEncoder struct {
	version  int16
	flexible bool
	out      []byte   // bytes encoded since the last piece
	pieces   [][]byte // all bytes before out
}

// appendFetch appends the response to out and returns it in pieces, to be written in order.
func appendFetch(out []byte, r *kmsg.FetchResponse) [][]byte {
	e := &fetchEncoder{version: r.Version, flexible: r.Version >= 12, out: out}
	e.int32(r.ThrottleMillis)
	if e.version >= 7 {
		e.int16(r.ErrorCode)
		e.int32(r.SessionID)
	}
	e.count(len(r.Topics))
	for i := range r.Topics {
		e.topic(&r.Topics[i])
	}
	if e.flexible {
		if len(r.Brokers) > 0 {
			e.endpoints(r.Brokers)
		} else {
			e.out = append(e.out, 0)
		}
	}
	return append(e.pieces, e.out)
}

func (e *fetchEncoder) topic(t *kmsg.FetchResponseTopic) {
	if e.version >= 13 {
		e.out = append(e.out, t.TopicID[:]...)
	} else {
		e.string(t.Topic)
	}
	e.count(len(t.Partitions))
	for i := range t.Partitions {
		e.partition(&t.Partitions[i])
	}
	if e.flexible {
		e.out = append(e.out, 0)
	}
}

func (e *fetchEncoder) partition(p *kmsg.FetchResponseTopicPartition) {
	e.int32(p.Partition)
	e.int16(p.ErrorCode)
	e.int64(p.HighWatermark)
	e.int64(p.LastStableOffset)
	if e.version >= 5 {
		e.int64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil && !refusedUnread(p.ErrorCode) {
		e.count(-1)
	} else {
		e.count(len(p.AbortedTransactions))
		for i := range p.AbortedTransactions {
			e.int64(p.AbortedTransactions[i].ProducerID)
			e.int64(p.AbortedTransactions[i].FirstOffset)
			if e.flexible {
				e.out = append(e.out, 0)
			}
		}
	}
	if e.version >= 11 {
		e.int32(p.PreferredReadReplica)
	}
	e.records(p.RecordBatches)
	if e.flexible {
		e.partitionTags(p)
	}
}

// refusedUnread reports whether a partition was rejected before its log was read. For those, Kafka
// returns an empty list of aborted transactions. For others it returns null, unless the client
// reads committed records. Kafka: FetchResponse.partitionResponse.
func refusedUnread(code int16) bool {
	switch Code(code) {
	case UnknownServerError, UnknownTopicOrPartition, UnknownTopicID, InconsistentTopicID, TopicAuthorizationFailed:
		return true
	}
	return false
}

func (e *fetchEncoder) records(p []byte) {
	if e.flexible {
		e.out = binary.AppendUvarint(e.out, uint64(len(p))+1)
	} else {
		e.int32(int32(len(p)))
	}
	if len(p) < sharedRecords {
		e.out = append(e.out, p...)
		return
	}
	e.pieces = append(e.pieces, e.out, p)
	// out continues in the unused capacity of the same buffer: if it grows, no earlier bytes are
	// copied
	e.out = e.out[len(e.out):]
}

func (e *fetchEncoder) partitionTags(p *kmsg.FetchResponseTopicPartition) {
	diverging := p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1
	leader := p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1
	n := byte(0)
	if diverging {
		n++
	}
	if leader {
		n++
	}
	e.out = append(e.out, n)
	if diverging {
		e.out = append(e.out, 0, 13)
		e.int32(p.DivergingEpoch.Epoch)
		e.int64(p.DivergingEpoch.EndOffset)
		e.out = append(e.out, 0)
	}
	if leader {
		e.out = append(e.out, 1, 9)
		e.int32(p.CurrentLeader.LeaderID)
		e.int32(p.CurrentLeader.LeaderEpoch)
		e.out = append(e.out, 0)
	}
}

// endpoints encodes the response's only tag.
func (e *fetchEncoder) endpoints(brokers []kmsg.FetchResponseBroker) {
	inner := &fetchEncoder{flexible: true}
	inner.count(len(brokers))
	for _, b := range brokers {
		inner.int32(b.NodeID)
		inner.string(b.Host)
		inner.int32(b.Port)
		if b.Rack == nil {
			inner.out = append(inner.out, 0)
		} else {
			inner.string(*b.Rack)
		}
		inner.out = append(inner.out, 0)
	}
	e.out = append(e.out, 1, 0)
	e.out = binary.AppendUvarint(e.out, uint64(len(inner.out)))
	e.out = append(e.out, inner.out...)
}

func (e *fetchEncoder) int16(v int16) { e.out = binary.BigEndian.AppendUint16(e.out, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.out = binary.BigEndian.AppendUint32(e.out, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.out = binary.BigEndian.AppendUint64(e.out, uint64(v)) }

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.out = binary.AppendUvarint(e.out, uint64(len(s))+1)
	} else {
		e.int16(int16(len(s)))
	}
	e.out = append(e.out, s...)
}

// count encodes the length of an array; -1 is null.
func (e *fetchEncoder) count(n int) {
	if e.flexible {
		e.out = binary.AppendUvarint(e.out, uint64(n+1))
	} else {
		e.int32(int32(n))
	}
}
