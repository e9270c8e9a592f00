package offsets

import (
	"encoding/binary"

	"github.com/stratalog/strata/internal/wire"
)

// AppendTo implements Value.
func (v ConsumerGroupValue) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt32(wire.AppendInt16(dst, 0), v.Epoch)
	return appendInt64Tag(dst, v.MetadataHash)
}

// AppendTo implements Value.
func (v ConsumerMemberValue) AppendTo(dst []byte) []byte {
	dst = appendNullable(wire.AppendInt16(dst, 0), v.InstanceID)
	dst = appendNullable(dst, v.RackID)
	dst = wire.AppendCompactString(wire.AppendCompactString(dst, v.ClientID), v.ClientHost)
	dst = appendCompactStrings(dst, v.Topics)
	dst = wire.AppendCompactString(dst, v.Regex)
	dst = appendNullable(wire.AppendInt32(dst, v.RebalanceTimeoutMs), v.Assignor)
	classic := []byte{0}
	if c := v.Classic; c != nil {
		classic = wire.AppendInt32([]byte{1}, c.SessionTimeoutMs)
		classic = appendCount(classic, len(c.Protocols))
		for _, p := range c.Protocols {
			classic = wire.AppendCompactString(classic, p.Name)
			classic = append(binary.AppendUvarint(classic, uint64(len(p.Metadata))+1), p.Metadata...)
			classic = append(classic, 0)
		}
		classic = append(classic, 0)
	}
	return append(binary.AppendUvarint(append(dst, 1, 0), uint64(len(classic))), classic...)
}

// AppendTo implements Value.
func (v TargetAssignmentValue) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt32(wire.AppendInt16(dst, 0), v.AssignmentEpoch)
	return appendInt64Tag(dst, v.TimestampMs)
}

// AppendTo implements Value.
func (v TargetAssignmentMemberValue) AppendTo(dst []byte) []byte {
	return append(appendTopicIDPartitions(wire.AppendInt16(dst, 0), v.Partitions), 0)
}

// AppendTo implements Value.
func (v CurrentAssignmentValue) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt32(wire.AppendInt32(wire.AppendInt16(dst, 0), v.MemberEpoch), v.PreviousMemberEpoch)
	dst = append(dst, byte(v.State))
	dst = appendTopicIDPartitions(dst, v.Assigned)
	return append(appendTopicIDPartitions(dst, v.PendingRevocation), 0)
}

// AppendTo implements Value.
func (v RegexValue) AppendTo(dst []byte) []byte {
	dst = appendCompactStrings(wire.AppendInt16(dst, 0), v.Topics)
	return append(wire.AppendInt64(wire.AppendInt64(dst, v.Version), v.TimestampMs), 0)
}

// appendInt64Tag appends tagged fields, with v as tag 0 unless v is 0, the default for readers.
func appendInt64Tag(dst []byte, v int64) []byte {
	if v == 0 {
		return append(dst, 0)
	}
	return wire.AppendInt64(append(dst, 1, 0, 8), v)
}

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, 0)
	}
	return wire.AppendCompactString(dst, s)
}

func appendCount(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)+1) }

func appendCompactStrings(dst []byte, all []string) []byte {
	dst = appendCount(dst, len(all))
	for _, s := range all {
		dst = wire.AppendCompactString(dst, s)
	}
	return dst
}

func appendInts(dst []byte, all []int32) []byte {
	dst = appendCount(dst, len(all))
	for _, n := range all {
		dst = wire.AppendInt32(dst, n)
	}
	return dst
}

func appendTopicIDPartitions(dst []byte, all []TopicIDPartitions) []byte {
	dst = appendCount(dst, len(all))
	for _, t := range all {
		dst = appendEpochsTag(appendInts(append(dst, t.TopicID[:]...), t.Partitions), t.Epochs)
	}
	return dst
}

// appendEpochsTag appends tagged fields with tag 0 unless there are no epochs.
func appendEpochsTag(dst []byte, epochs []int32) []byte {
	if len(epochs) == 0 {
		return append(dst, 0)
	}
	field := appendInts(nil, epochs)
	return append(binary.AppendUvarint(append(dst, 1, 0), uint64(len(field))), field...)
}
