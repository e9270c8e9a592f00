package offsets

import (
	"fmt"

	"github.com/stratalog/strata/internal/wire"
)

// KeyType is the first field of a key in the offsets topic.
type KeyType int16

// The kinds of records in __consumer_offsets. Those from KeyConsumerGroup on belong to the KIP-848
// protocol, those from KeyShareMember to KeyShareStates to share groups (KIP-932), and those from
// KeyStreamsGroup on to streams groups (KIP-1071).
const (
	KeyOffset                    KeyType = 1 // type 0 is an older form of it
	KeyGroup                     KeyType = 2 // classic group: generation, members, assignments
	KeyConsumerGroup             KeyType = 3
	KeyPartitionMetadata         KeyType = 4 // obsolete
	KeyConsumerMember            KeyType = 5
	KeyTargetAssignment          KeyType = 6
	KeyTargetAssignmentMember    KeyType = 7
	KeyCurrentAssignmentOfMember KeyType = 8
	KeyShareMember               KeyType = 10
	KeyShareGroup                KeyType = 11
	KeyShareTarget               KeyType = 12
	KeyShareTargetMember         KeyType = 13
	KeyShareCurrentAssignment    KeyType = 14
	KeyShareStates               KeyType = 15
	KeyRegularExpression         KeyType = 16
	KeyStreamsGroup              KeyType = 17
	KeyStreamsMember             KeyType = 19
	KeyStreamsTarget             KeyType = 20
	KeyStreamsTargetMember       KeyType = 21
	KeyStreamsCurrentAssignment  KeyType = 22
	KeyStreamsTopology           KeyType = 23
)

// A Key is the key of a record in __consumer_offsets. It is comparable.
type Key struct {
	Type      KeyType
	Group     string
	Topic     string // KeyOffset
	Partition int32  // KeyOffset
	Member    string // member id in the types of a member; the expression in KeyRegularExpression
}

// AppendTo appends k in Kafka's format. Its fields must be at most 32767 bytes long.
func (k Key) AppendTo(dst []byte) []byte {
	dst = wire.AppendString(wire.AppendInt16(dst, int16(k.Type)), k.Group)
	switch k.Type {
	case KeyOffset:
		return wire.AppendInt32(wire.AppendString(dst, k.Topic), k.Partition)
	case KeyConsumerMember, KeyTargetAssignmentMember, KeyCurrentAssignmentOfMember, KeyRegularExpression, KeyShareMember, KeyShareTargetMember, KeyShareCurrentAssignment,
		KeyStreamsMember, KeyStreamsTargetMember, KeyStreamsCurrentAssignment:
		return wire.AppendString(dst, k.Member)
	}
	return dst
}

// ParseKey parses a key. Type 0 is returned as KeyOffset. It returns an error matching ErrMalformed
// for broken keys, and for unknown types (of later versions), which a reader of the topic must
// skip. ok is false for an unknown type.
func ParseKey(p []byte) (k Key, ok bool, err error) {
	r := wire.Reader{P: p}
	k.Type = KeyType(r.Int16())
	switch k.Type {
	case 0, KeyOffset:
		k.Type = KeyOffset
		k.Group, k.Topic, k.Partition = r.String(), r.String(), r.Int32()
	case KeyGroup, KeyConsumerGroup, KeyPartitionMetadata, KeyTargetAssignment, KeyShareGroup, KeyShareTarget, KeyShareStates,
		KeyStreamsGroup, KeyStreamsTarget, KeyStreamsTopology:
		k.Group = r.String()
	case KeyConsumerMember, KeyTargetAssignmentMember, KeyCurrentAssignmentOfMember, KeyRegularExpression, KeyShareMember, KeyShareTargetMember, KeyShareCurrentAssignment,
		KeyStreamsMember, KeyStreamsTargetMember, KeyStreamsCurrentAssignment:
		k.Group, k.Member = r.String(), r.String()
	default:
		if r.Err == nil {
			return Key{}, false, fmt.Errorf("%w: key type %d", ErrMalformed, k.Type)
		}
	}
	if r.Err == nil && len(r.P) > 0 {
		r.Fail("bytes after the key")
	}
	if r.Err != nil {
		return Key{}, true, r.Err
	}
	return k, true, nil
}
