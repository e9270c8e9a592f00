package group

import (
	"cmp"
	"slices"

	"github.com/stratalog/strata/record"
)

// ProtocolTypeConsumer is the protocol type of consumer groups; others (Kafka Connect's) are opaque to the coordinator.
const ProtocolTypeConsumer = "consumer"

const highestConsumerProtocol = 3 // version of subscription and assignment that we write

// A Subscription is what a consumer tells the group leader when it joins: Kafka's ConsumerProtocolSubscription.
type Subscription struct {
	Version    int16 // as read; Append always writes version 3
	Topics     []string
	UserData   []byte                  // the assignor's own, see SubscriptionUserData; nil differs from empty
	Owned      []record.TopicPartition // what the member holds while it joins (cooperative protocol); version 1
	Generation int32                   // in which it got Owned; -1: none; version 2
	Rack       string                  // "": none; version 3
}

// AppendTo appends s in version 3. Topics and owned partitions are written sorted, as the Java client does.
// Topics longer than 32767 bytes cannot be written and are cut; topic names are at most 249 characters.
func (s Subscription) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, highestConsumerProtocol)
	topics := slices.Sorted(slices.Values(s.Topics))
	dst = appendInt32(dst, int32(len(topics)))
	for _, t := range topics {
		dst = appendString(dst, t)
	}
	dst = appendBytes(dst, s.UserData)
	dst = appendTopicPartitions(dst, s.Owned)
	dst = appendInt32(dst, s.Generation)
	return appendNullableString(dst, s.Rack)
}

// ParseSubscription reads a subscription of any version; higher ones than 3 are read as 3 and trailing bytes are ignored, as Kafka does.
// UserData aliases p. It returns an error matching ErrMalformed.
func ParseSubscription(p []byte) (Subscription, error) {
	r := reader{p: p}
	s := Subscription{Version: r.int16(), Generation: -1}
	if s.Version < 0 {
		r.fail("subscription version")
	}
	n := r.count(2)
	s.Topics = make([]string, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		s.Topics = append(s.Topics, r.string())
	}
	s.UserData = r.bytes()
	if s.Version >= 1 {
		s.Owned = r.topicPartitions()
	}
	if s.Version >= 2 {
		s.Generation = r.int32()
	}
	if s.Version >= 3 {
		s.Rack = r.nullableString()
	}
	if r.err != nil {
		return Subscription{}, r.err
	}
	return s, nil
}

// An Assignment is what a member gets from its group leader: Kafka's ConsumerProtocolAssignment.
type Assignment struct {
	Version    int16 // as read; Append always writes version 3
	Partitions []record.TopicPartition
	UserData   []byte
}

// AppendTo appends a in version 3, the topics in the order of their names.
func (a Assignment) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, highestConsumerProtocol)
	dst = appendTopicPartitions(dst, a.Partitions)
	return appendBytes(dst, a.UserData)
}

// ParseAssignment reads an assignment of any version. Empty bytes, which a member that the leader left out is given, are an empty assignment.
// UserData aliases p. It returns an error matching ErrMalformed.
func ParseAssignment(p []byte) (Assignment, error) {
	if len(p) == 0 {
		return Assignment{}, nil
	}
	r := reader{p: p}
	a := Assignment{Version: r.int16()}
	if a.Version < 0 {
		r.fail("assignment version")
	}
	a.Partitions = r.topicPartitions()
	a.UserData = r.bytes()
	if r.err != nil {
		return Assignment{}, r.err
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
	dst = appendInt32(dst, 0)
	for len(tps) > 0 {
		n := 1
		for n < len(tps) && tps[n].Topic == tps[0].Topic {
			n++
		}
		dst = appendString(dst, tps[0].Topic)
		dst = appendInt32(dst, int32(n))
		for _, tp := range tps[:n] {
			dst = appendInt32(dst, tp.Partition)
		}
		tps, topics = tps[n:], topics+1
	}
	be.PutUint32(dst[countAt:], uint32(topics))
	return dst
}

func (r *reader) topicPartitions() []record.TopicPartition {
	var out []record.TopicPartition
	for n := r.count(6); n > 0 && r.err == nil; n-- {
		topic := r.string()
		for k := r.count(4); k > 0 && r.err == nil; k-- {
			out = append(out, record.TopicPartition{Topic: topic, Partition: r.int32()})
		}
	}
	return out
}
