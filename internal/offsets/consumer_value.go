package offsets

import (
	"bytes"
	"fmt"

	"github.com/stratalog/strata/internal/wire"
)

// The values of the KIP-848 protocol's records. The offsets of its groups are plain KeyOffset
// records.

// ConsumerGroupValue is the value of KeyConsumerGroup.
type ConsumerGroupValue struct {
	Epoch        int32
	MetadataHash int64 // 0: none
}

// ConsumerMemberValue is the value of KeyConsumerMember.
type ConsumerMemberValue struct {
	InstanceID, RackID   string // "": none
	ClientID, ClientHost string
	Topics               []string
	Regex                string
	RebalanceTimeoutMs   int32
	Assignor             string
	Classic              *ClassicMember // nil: not a member of the classic protocol
}

// A ClassicMember is the data that a member of the classic protocol sent when it joined.
type ClassicMember struct {
	SessionTimeoutMs int32
	Protocols        []ClassicProtocol
}

// A ClassicProtocol is one assignor of a ClassicMember, with its subscription.
type ClassicProtocol struct {
	Name     string
	Metadata []byte
}

// TargetAssignmentValue is the value of KeyTargetAssignment, KeyShareTarget and KeyStreamsTarget.
type TargetAssignmentValue struct {
	AssignmentEpoch int32
	TimestampMs     int64 // 0: unknown
}

// TopicIDPartitions are partitions of a topic, by its id.
type TopicIDPartitions struct {
	TopicID    [16]byte
	Partitions []int32
	// parallel to Partitions: epoch of each assignment; only in KeyCurrentAssignmentOfMember, may
	// be absent
	Epochs []int32
}

// TargetAssignmentMemberValue is the value of KeyTargetAssignmentMember and KeyShareTargetMember.
type TargetAssignmentMemberValue struct{ Partitions []TopicIDPartitions }

// CurrentAssignmentValue is the value of KeyCurrentAssignmentOfMember.
type CurrentAssignmentValue struct {
	MemberEpoch, PreviousMemberEpoch int32
	State                            int8
	Assigned, PendingRevocation      []TopicIDPartitions
}

// RegexValue is the value of KeyRegularExpression: the topics that an expression matched.
type RegexValue struct {
	Topics      []string
	Version     int64
	TimestampMs int64
}

// ParseValue parses the value of a record with a key of type t. The result is a pointer to
// OffsetValue, GroupValue or one of the types above, or nil for KeyPartitionMetadata, which is
// obsolete. Byte slices of a GroupValue alias p. It returns an error matching ErrMalformed.
func ParseValue(t KeyType, p []byte) (any, error) {
	switch t {
	case KeyOffset:
		v, err := ParseOffsetValue(p)
		return &v, err
	case KeyGroup:
		v, err := ParseGroupValue(p)
		return &v, err
	case KeyPartitionMetadata:
		return nil, nil
	}
	r := &wire.Reader{P: p}
	if version := r.Int16(); r.Err == nil && version != 0 {
		return nil, fmt.Errorf("%w: value version %d of key type %d", ErrMalformed, version, t)
	}
	v := consumerValue(r, t)
	if r.Err != nil {
		return nil, r.Err
	}
	return v, nil
}

func consumerValue(r *wire.Reader, t KeyType) any {
	switch t {
	case KeyConsumerGroup:
		v := &ConsumerGroupValue{Epoch: r.Int32()}
		r.Tags(func(tag uint64, f *wire.Reader) {
			if tag == 0 {
				v.MetadataHash = f.Int64()
			}
		})
		return v
	case KeyConsumerMember:
		return consumerMember(r)
	case KeyTargetAssignment, KeyShareTarget, KeyStreamsTarget:
		v := &TargetAssignmentValue{AssignmentEpoch: r.Int32()}
		r.Tags(func(tag uint64, f *wire.Reader) {
			if tag == 0 {
				v.TimestampMs = f.Int64()
			}
		})
		return v
	case KeyTargetAssignmentMember, KeyShareTargetMember:
		v := &TargetAssignmentMemberValue{Partitions: topicIDPartitions(r)}
		r.Tags(nil)
		return v
	case KeyCurrentAssignmentOfMember:
		v := &CurrentAssignmentValue{MemberEpoch: r.Int32(), PreviousMemberEpoch: r.Int32(), State: r.Int8()}
		v.Assigned, v.PendingRevocation = topicIDPartitions(r), topicIDPartitions(r)
		r.Tags(nil)
		return v
	case KeyRegularExpression:
		v := &RegexValue{Topics: compactStrings(r), Version: r.Int64(), TimestampMs: r.Int64()}
		r.Tags(nil)
		return v
	case KeyShareMember, KeyShareGroup, KeyShareCurrentAssignment, KeyShareStates:
		return shareValue(r, t)
	case KeyStreamsGroup, KeyStreamsMember, KeyStreamsTargetMember, KeyStreamsCurrentAssignment, KeyStreamsTopology:
		return streamsValue(r, t)
	}
	r.Fail(fmt.Sprintf("key type %d", t))
	return nil
}

func consumerMember(r *wire.Reader) *ConsumerMemberValue {
	v := &ConsumerMemberValue{InstanceID: r.CompactString(), RackID: r.CompactString(), ClientID: r.CompactString(), ClientHost: r.CompactString()}
	v.Topics, v.Regex = compactStrings(r), r.CompactString()
	v.RebalanceTimeoutMs, v.Assignor = r.Int32(), r.CompactString()
	r.Tags(func(tag uint64, f *wire.Reader) {
		if tag == 0 {
			v.Classic = classicMember(f)
		}
	})
	return v
}

// classicMember reads a nullable structure: a byte that is 0 for null, then its fields.
func classicMember(r *wire.Reader) *ClassicMember {
	if r.Int8() < 1 { // Kafka writes 0 for null here, and 1 otherwise
		return nil
	}
	m := &ClassicMember{SessionTimeoutMs: r.Int32()}
	for n := r.CompactCount(3); n > 0 && r.Err == nil; n-- {
		m.Protocols = append(m.Protocols, ClassicProtocol{Name: r.CompactString(), Metadata: bytes.Clone(r.CompactBytes())})
		r.Tags(nil)
	}
	r.Tags(nil)
	return m
}

func compactStrings(r *wire.Reader) []string {
	n := r.CompactCount(1)
	out := make([]string, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		out = append(out, r.CompactString())
	}
	return out
}

func compactInts(r *wire.Reader) []int32 {
	n := r.CompactCount(4)
	out := make([]int32, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		out = append(out, r.Int32())
	}
	return out
}

// epochs reads the epochs of partitions; nil for an empty list.
func epochs(r *wire.Reader) []int32 {
	if all := compactInts(r); len(all) > 0 {
		return all
	}
	return nil
}

func topicIDPartitions(r *wire.Reader) []TopicIDPartitions {
	n := r.CompactCount(18)
	out := make([]TopicIDPartitions, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		var t TopicIDPartitions
		copy(t.TopicID[:], r.Take(16, "topic id"))
		t.Partitions = compactInts(r)
		r.Tags(func(tag uint64, f *wire.Reader) {
			if tag == 0 {
				t.Epochs = epochs(f)
			}
		})
		out = append(out, t)
	}
	return out
}
