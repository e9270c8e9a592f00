// Package metarecord encodes the records of the controller's log in Apache Kafka's metadata record
// schemas.
//
// # Format
//
// A value in the metadata log is framed (Kafka: MetadataRecordSerde): frame version (unsigned
// varint, 1), record type and record version (unsigned varints), then the fields in Kafka's
// flexible encoding: compact strings and arrays, tagged fields at the end. Types and versions, as
// in 4.3:
//
//	type  record                  versions read   written
//	0     RegisterBrokerRecord    0-3             3
//	1     UnregisterBrokerRecord  0               0
//	2     TopicRecord             0               0
//	3     PartitionRecord         0-2             (*)
//	4     ConfigRecord            0               0
//	5     PartitionChangeRecord   0-2             (*)
//	9     RemoveTopicRecord       0               0
//	10    DelegationTokenRecord   0               0
//	11    UserScramCredential
//	      Record                  0               0
//	12    FeatureLevelRecord      0               0
//	14    ClientQuotaRecord       0               0
//	15    ProducerIdsRecord       0               0
//	17    BrokerRegistrationChange
//	      Record                  0-2             (*)
//	18    AccessControlEntry
//	      Record                  0               0
//	19    RemoveAccessControl
//	      EntryRecord             0               0
//	20    NoOpRecord              0               0
//	22    RemoveUserScramCredential
//	      Record                  0               0
//	23    BeginTransactionRecord  0               0
//	24    EndTransactionRecord    0               0
//	25    AbortTransactionRecord  0               0
//	26    RemoveDelegationToken
//	      Record                  0               0
//
// (*) the lowest version that holds the fields: 1 for directories, 2 for eligible leader replicas.
//
// Any other type or version is an *UnknownError: without the record, the rest of the metadata
// would be incomplete.
package metarecord

import (
	"errors"
	"fmt"
)

// An ID is a topic's or a directory's UUID.
type ID = [16]byte

// Record types.
const (
	typeRegisterBroker   = 0
	typeUnregisterBroker = 1
	typeTopic            = 2
	typePartition        = 3
	typeConfig           = 4
	typePartitionChange  = 5
	typeRemoveTopic      = 9
	typeFeatureLevel     = 12
	typeClientQuota      = 14
	typeProducerIDs      = 15
	typeBrokerChange     = 17

	typeAccessControlEntry       = 18
	typeRemoveAccessControlEntry = 19

	typeNoOp             = 20
	typeBeginTransaction = 23
	typeEndTransaction   = 24
	typeAbortTransaction = 25

	typeDelegationToken           = 10
	typeUserScramCredential       = 11
	typeRemoveUserScramCredential = 22
	typeRemoveDelegationToken     = 26

	frameVersion = 1
)

// ErrInvalid is matched by errors about bytes that are no metadata record.
var ErrInvalid = errors.New("metarecord: invalid record")

// An UnknownError reports a well-framed record that this version of the package cannot read, as a
// newer one may have written.
type UnknownError struct{ Type, Version int }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("metarecord: unknown record type %d version %d", e.Type, e.Version)
}

// A Record is one of the types below, as a pointer.
type Record interface {
	// appendFields encodes the fields of the given version. header returns the type and the lowest
	// version that has all set fields.
	header() (kind, version uint32)
	appendFields(dst []byte, version uint32) []byte
	readFields(r *reader, version uint32)
}

// Append encodes rec at the end of dst, framed.
func Append(dst []byte, rec Record) []byte {
	kind, version := rec.header()
	dst = appendUvarint(dst, frameVersion)
	dst = appendUvarint(dst, kind)
	dst = appendUvarint(dst, version)
	return rec.appendFields(dst, version)
}

// Parse decodes one framed record, which does not refer to p. The error matches ErrInvalid or is an
// *UnknownError.
func Parse(p []byte) (Record, error) {
	r := &reader{p: p}
	frame, kind, version := r.uvarint(), r.uvarint(), r.uvarint()
	if r.bad != "" {
		return nil, fmt.Errorf("%w: %s in the frame", ErrInvalid, r.bad)
	}
	if frame != frameVersion {
		return nil, fmt.Errorf("%w: frame version %d", ErrInvalid, frame)
	}
	rec, newest := blank(kind)
	if rec == nil || version > newest {
		return nil, &UnknownError{Type: int(kind), Version: int(version)}
	}
	rec.readFields(r, version)
	if r.bad == "" && len(r.p) > 0 {
		r.fail("bytes behind the last field")
	}
	if r.bad != "" {
		return nil, fmt.Errorf("%w: type %d version %d: %s", ErrInvalid, kind, version, r.bad)
	}
	return rec, nil
}

// blank returns an empty record of a type and the newest version of it that can be read; nil for an
// unknown type.
func blank(kind uint32) (rec Record, newest uint32) {
	switch kind {
	case typeTopic:
		return &Topic{}, 0
	case typePartition:
		return &Partition{}, 2
	case typeConfig:
		return &Config{}, 0
	case typePartitionChange:
		return &PartitionChange{}, 2
	case typeRemoveTopic:
		return &RemoveTopic{}, 0
	case typeClientQuota:
		return &ClientQuota{}, 0
	case typeProducerIDs:
		return &ProducerIDs{}, 0
	case typeNoOp:
		return &NoOp{}, 0
	case typeRegisterBroker:
		return &RegisterBroker{}, 3
	case typeUnregisterBroker:
		return &UnregisterBroker{}, 0
	case typeBrokerChange:
		return &BrokerChange{}, 2
	case typeFeatureLevel:
		return &FeatureLevel{}, 0
	case typeAccessControlEntry:
		return &AccessControlEntry{}, 0
	case typeRemoveAccessControlEntry:
		return &RemoveAccessControlEntry{}, 0
	case typeBeginTransaction:
		return &BeginTransaction{}, 0
	case typeEndTransaction:
		return &EndTransaction{}, 0
	case typeAbortTransaction:
		return &AbortTransaction{}, 0
	case typeUserScramCredential:
		return &UserScramCredential{}, 0
	case typeRemoveUserScramCredential:
		return &RemoveUserScramCredential{}, 0
	case typeDelegationToken:
		return &DelegationToken{}, 0
	case typeRemoveDelegationToken:
		return &RemoveDelegationToken{}, 0
	}
	return nil, 0
}
