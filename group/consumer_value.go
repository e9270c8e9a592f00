package group

import "fmt"

// The values of the KIP-848 protocol's records. They are read, so that a directory of a Kafka with such groups can be inspected; their
// groups' offsets are plain KeyOffset records. Nothing here writes them.

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
	Classic              bool // joined with the classic protocol
}

// TargetAssignmentValue is the value of KeyTargetAssignment.
type TargetAssignmentValue struct {
	AssignmentEpoch int32
	TimestampMs     int64 // 0: unknown
}

// TopicIDPartitions are partitions of a topic, by its id.
type TopicIDPartitions struct {
	TopicID    [16]byte
	Partitions []int32
	Epochs     []int32 // parallel to Partitions: when each was assigned; KeyCurrentAssignmentOfMember only, may be absent
}

// TargetAssignmentMemberValue is the value of KeyTargetAssignmentMember.
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

// ParseValue reads the value of a record with a key of the given type: a pointer to OffsetValue, GroupValue or one of the types above, or nil for
// KeyPartitionMetadata, which is obsolete. Byte slices in it alias p. It returns an error matching ErrMalformed.
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
	r := reader{p: p}
	if version := r.int16(); r.err == nil && version != 0 {
		return nil, fmt.Errorf("%w: value version %d of key type %d", ErrMalformed, version, t)
	}
	v := r.consumerValue(t)
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

func (r *reader) consumerValue(t KeyType) any {
	switch t {
	case KeyConsumerGroup:
		v := &ConsumerGroupValue{Epoch: r.int32()}
		r.tags(func(tag uint64, f *reader) {
			if tag == 0 {
				v.MetadataHash = f.int64()
			}
		})
		return v
	case KeyConsumerMember:
		return r.consumerMember()
	case KeyTargetAssignment:
		v := &TargetAssignmentValue{AssignmentEpoch: r.int32()}
		r.tags(func(tag uint64, f *reader) {
			if tag == 0 {
				v.TimestampMs = f.int64()
			}
		})
		return v
	case KeyTargetAssignmentMember:
		v := &TargetAssignmentMemberValue{Partitions: r.topicIDPartitions()}
		r.tags(nil)
		return v
	case KeyCurrentAssignmentOfMember:
		v := &CurrentAssignmentValue{MemberEpoch: r.int32(), PreviousMemberEpoch: r.int32(), State: r.int8()}
		v.Assigned, v.PendingRevocation = r.topicIDPartitions(), r.topicIDPartitions()
		r.tags(nil)
		return v
	case KeyRegularExpression:
		v := &RegexValue{Topics: r.compactStrings(), Version: r.int64(), TimestampMs: r.int64()}
		r.tags(nil)
		return v
	}
	r.fail(fmt.Sprintf("key type %d", t))
	return nil
}

func (r *reader) consumerMember() *ConsumerMemberValue {
	v := &ConsumerMemberValue{InstanceID: r.compactString(), RackID: r.compactString(), ClientID: r.compactString(), ClientHost: r.compactString()}
	v.Topics, v.Regex = r.compactStrings(), r.compactString()
	v.RebalanceTimeoutMs, v.Assignor = r.int32(), r.compactString()
	r.tags(func(tag uint64, f *reader) {
		if tag == 0 {
			v.Classic = f.int8() == 1
		}
	})
	return v
}

func (r *reader) compactStrings() []string {
	n := r.compactCount(1)
	out := make([]string, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		out = append(out, r.compactString())
	}
	return out
}

func (r *reader) compactInts() []int32 {
	n := r.compactCount(4)
	out := make([]int32, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		out = append(out, r.int32())
	}
	return out
}

func (r *reader) topicIDPartitions() []TopicIDPartitions {
	n := r.compactCount(18)
	out := make([]TopicIDPartitions, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		var t TopicIDPartitions
		copy(t.TopicID[:], r.take(16, "topic id"))
		t.Partitions = r.compactInts()
		r.tags(func(tag uint64, f *reader) {
			if tag == 0 {
				t.Epochs = f.compactInts()
			}
		})
		out = append(out, t)
	}
	return out
}
