package offsets

import "github.com/stratalog/strata/internal/wire"

// The values of the records of share groups (KIP-932). Their members have no offsets.

// ShareMemberValue is the value of KeyShareMember.
type ShareMemberValue struct {
	RackID               string // "": none
	ClientID, ClientHost string
	Topics               []string
}

// ShareGroupValue is the value of KeyShareGroup.
type ShareGroupValue struct {
	Epoch        int32
	MetadataHash int64 // 0: none
}

// ShareCurrentAssignmentValue is the value of KeyShareCurrentAssignment.
type ShareCurrentAssignmentValue struct {
	MemberEpoch, PreviousMemberEpoch int32
	State                            int8 // always 0: members give up nothing
	Assigned                         []TopicIDPartitions
}

// ShareStatesValue is the value of KeyShareStates: the partitions for which the group has, or will
// have, states in __share_group_state.
type ShareStatesValue struct {
	Initializing, Initialized []ShareStatesTopic
	Deleting                  []ShareStatesTopic // without partitions: all partitions
}

// A ShareStatesTopic is a topic in a ShareStatesValue.
type ShareStatesTopic struct {
	TopicID    [16]byte
	Topic      string
	Partitions []int32
}

// AppendTo implements Value.
func (v ShareMemberValue) AppendTo(dst []byte) []byte {
	dst = appendNullable(wire.AppendInt16(dst, 0), v.RackID)
	dst = wire.AppendCompactString(wire.AppendCompactString(dst, v.ClientID), v.ClientHost)
	return append(appendCompactStrings(dst, v.Topics), 0)
}

// AppendTo implements Value.
func (v ShareGroupValue) AppendTo(dst []byte) []byte {
	return append(wire.AppendInt64(wire.AppendInt32(wire.AppendInt16(dst, 0), v.Epoch), v.MetadataHash), 0)
}

// AppendTo implements Value.
func (v ShareCurrentAssignmentValue) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt32(wire.AppendInt32(wire.AppendInt16(dst, 0), v.MemberEpoch), v.PreviousMemberEpoch)
	return append(appendTopicIDPartitions(append(dst, byte(v.State)), v.Assigned), 0)
}

// AppendTo implements Value.
func (v ShareStatesValue) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt16(dst, 0)
	for _, topics := range [][]ShareStatesTopic{v.Initializing, v.Initialized} {
		dst = appendCount(dst, len(topics))
		for _, t := range topics {
			dst = wire.AppendCompactString(append(dst, t.TopicID[:]...), t.Topic)
			dst = append(appendInts(dst, t.Partitions), 0)
		}
	}
	dst = appendCount(dst, len(v.Deleting))
	for _, t := range v.Deleting {
		dst = append(wire.AppendCompactString(append(dst, t.TopicID[:]...), t.Topic), 0)
	}
	return append(dst, 0)
}

// shareValue reads the value of a record of a share group.
func shareValue(r *wire.Reader, t KeyType) any {
	switch t {
	case KeyShareMember:
		v := &ShareMemberValue{RackID: r.CompactString(), ClientID: r.CompactString(), ClientHost: r.CompactString(), Topics: compactStrings(r)}
		r.Tags(nil)
		return v
	case KeyShareGroup:
		v := &ShareGroupValue{Epoch: r.Int32(), MetadataHash: r.Int64()}
		r.Tags(nil)
		return v
	case KeyShareCurrentAssignment:
		v := &ShareCurrentAssignmentValue{MemberEpoch: r.Int32(), PreviousMemberEpoch: r.Int32(), State: r.Int8(), Assigned: topicIDPartitions(r)}
		r.Tags(nil)
		return v
	default: // KeyShareStates
		v := &ShareStatesValue{Initializing: shareStatesTopics(r, true), Initialized: shareStatesTopics(r, true), Deleting: shareStatesTopics(r, false)}
		r.Tags(nil)
		return v
	}
}

func shareStatesTopics(r *wire.Reader, partitions bool) []ShareStatesTopic {
	n := r.CompactCount(18)
	out := make([]ShareStatesTopic, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		var t ShareStatesTopic
		copy(t.TopicID[:], r.Take(16, "topic id"))
		if t.Topic = r.CompactString(); partitions {
			t.Partitions = compactInts(r)
		}
		r.Tags(nil)
		out = append(out, t)
	}
	return out
}
