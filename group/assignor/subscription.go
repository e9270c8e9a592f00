package assignor

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/stratalog/strata/internal/wire"
	"github.com/stratalog/strata/record"
)

const highestConsumerProtocol = 3 // version of subscriptions and assignments that are written

// A Subscription is a consumer's metadata for the group leader: Kafka's
// ConsumerProtocolSubscription.
type Subscription struct {
	Version    int16 // version that was parsed; AppendTo always writes version 3
	Topics     []string
	UserData   []byte                  // data of the assignor, see SubscriptionUserData; nil differs from empty
	Owned      []record.TopicPartition // partitions held while joining (cooperative protocol); version 1
	Generation int32                   // generation in which Owned was assigned; -1: none; version 2
	Rack       string                  // "": none; version 3
}

// AppendTo appends s in version 3. Topics and owned partitions are written sorted, as by the Java
// client. Topics longer than 32767 bytes are truncated; valid topic names have at most 249
// characters.
func (s Subscription) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt16(dst, highestConsumerProtocol)
	topics := slices.Sorted(slices.Values(s.Topics))
	dst = wire.AppendInt32(dst, int32(len(topics)))
	for _, t := range topics {
		dst = wire.AppendString(dst, t)
	}
	dst = wire.AppendBytes(dst, s.UserData)
	dst = appendTopicPartitions(dst, s.Owned)
	dst = wire.AppendInt32(dst, s.Generation)
	return wire.AppendNullableString(dst, s.Rack)
}

// ParseSubscription parses a subscription of any version. As in Kafka, versions above 3 are parsed
// as 3, and trailing bytes are ignored. UserData aliases p. It returns an error matching
// ErrMalformed.
func ParseSubscription(p []byte) (Subscription, error) {
	r := wire.Reader{P: p}
	s := Subscription{Version: r.Int16(), Generation: -1}
	if s.Version < 0 {
		r.Fail("subscription version")
	}
	n := r.Count(2)
	s.Topics = make([]string, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		s.Topics = append(s.Topics, r.String())
	}
	s.UserData = r.Bytes()
	if s.Version >= 1 {
		s.Owned = topicPartitions(&r)
	}
	if s.Version >= 2 {
		s.Generation = r.Int32()
	}
	if s.Version >= 3 {
		s.Rack = r.NullableString()
	}
	if r.Err != nil {
		return Subscription{}, r.Err
	}
	return s, nil
}

// An Assignment is the group leader's result for one member: Kafka's ConsumerProtocolAssignment.
type Assignment struct {
	Version    int16 // version that was parsed; AppendTo always writes version 3
	Partitions []record.TopicPartition
	UserData   []byte
}

// AppendTo appends a in version 3, with topics sorted by name.
func (a Assignment) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt16(dst, highestConsumerProtocol)
	dst = appendTopicPartitions(dst, a.Partitions)
	return wire.AppendBytes(dst, a.UserData)
}

// ParseAssignment parses an assignment of any version. Empty bytes, which members without an entry
// of the leader get, are an empty assignment. UserData aliases p. It returns an error matching
// ErrMalformed.
func ParseAssignment(p []byte) (Assignment, error) {
	if len(p) == 0 {
		return Assignment{}, nil
	}
	r := wire.Reader{P: p}
	a := Assignment{Version: r.Int16()}
	if a.Version < 0 {
		r.Fail("assignment version")
	}
	a.Partitions = topicPartitions(&r)
	a.UserData = r.Bytes()
	if r.Err != nil {
		return Assignment{}, r.Err
	}
	return a, nil
}

// sortPartitions sorts by topic, then partition.
func sortPartitions(tps []record.TopicPartition) {
	slices.SortFunc(tps, compareTopicPartition)
}

func compareTopicPartition(a, b record.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// appendTopicPartitions writes ARRAY{topic STRING, partitions ARRAY i32}, sorted.
func appendTopicPartitions(dst []byte, tps []record.TopicPartition) []byte {
	tps = slices.Clone(tps)
	sortPartitions(tps)
	countAt, topics := len(dst), int32(0)
	dst = wire.AppendInt32(dst, 0)
	for len(tps) > 0 {
		n := 1
		for n < len(tps) && tps[n].Topic == tps[0].Topic {
			n++
		}
		dst = wire.AppendString(dst, tps[0].Topic)
		dst = wire.AppendInt32(dst, int32(n))
		for _, tp := range tps[:n] {
			dst = wire.AppendInt32(dst, tp.Partition)
		}
		tps, topics = tps[n:], topics+1
	}
	binary.BigEndian.PutUint32(dst[countAt:], uint32(topics))
	return dst
}

func topicPartitions(r *wire.Reader) []record.TopicPartition {
	var out []record.TopicPartition
	for n := r.Count(6); n > 0 && r.Err == nil; n-- {
		topic := r.String()
		for k := r.Count(4); k > 0 && r.Err == nil; k-- {
			out = append(out, record.TopicPartition{Topic: topic, Partition: r.Int32()})
		}
	}
	return out
}
