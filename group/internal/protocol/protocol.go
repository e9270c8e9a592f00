// Package protocol has the requests and responses of the group protocols as values, and their
// errors. Package group has aliases for them: applications need not import this package.
package protocol

import (
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// A JoinRequest requests membership in a group. Kafka: JoinGroup.
type JoinRequest struct {
	Group        string // not empty
	MemberID     string // "": a new member
	InstanceID   string // "": dynamic member; otherwise a name that survives restarts (KIP-345)
	ClientID     string // only for descriptions and as the front of new member ids
	ClientHost   string // "": the member is in this process, and is removed when another one loads its group
	ProtocolType string // "consumer" for consumer groups; not empty

	// SessionTimeout is the time without a heartbeat after which the member is removed, within the
	// limits of Config. Kafka: session.timeout.ms.
	SessionTimeout time.Duration
	// RebalanceTimeout is the time that the other members wait for this one in a rebalance; 0:
	// SessionTimeout. Kafka: max.poll.interval.ms.
	RebalanceTimeout time.Duration

	// assignors that the member supports, in order of preference; at least one. Kept: must not be
	// changed afterwards
	Protocols []assignor.Protocol

	// RequireMemberID makes a new dynamic member join twice: the first response is a
	// *MemberIDRequiredError with the id to use. Otherwise a client whose first response is lost
	// would leave an unused member in the group. JoinGroup version 4 and later.
	RequireMemberID bool
	// SkipAssignment is true if the member understands JoinResponse.SkipAssignment. JoinGroup
	// version 9 and later.
	SkipAssignment bool
	// Reason is why the member joins, for the events of the group (KIP-800); "" if it sends none.
	// JoinGroup version 8 and later.
	Reason string

	// Describes is as in ConsumerHeartbeatRequest, for groups with members of that protocol.
	Describes func(topic string) bool
	Owner     string // as in ConsumerHeartbeatRequest
}

// A JoinResponse ends the first half of a rebalance.
type JoinResponse struct {
	Generation   int32
	MemberID     string
	Leader       string // member id of the group leader
	ProtocolType string
	ProtocolName string
	// for the group leader only; the metadata must not be written to
	Members []assignor.JoinMember

	// SkipAssignment is true for a group leader that returned under its InstanceID and need not
	// assign partitions: it sends an empty SyncRequest.
	SkipAssignment bool
}

// A SyncRequest requests the member's assignment; the group leader's contains the assignments of
// all members. Kafka: SyncGroup.
type SyncRequest struct {
	Group, MemberID, InstanceID string
	Generation                  int32
	ProtocolType, ProtocolName  string            // "": not checked, unless NamesProtocol
	NamesProtocol               bool              // the request has a protocol name, which may be empty. Kafka: version 5 (KIP-559)
	Assignments                 map[string][]byte // by member id; ignored except from the group leader. Kept, not copied
}

// Fits reports whether the type and name in the request are the group's.
func (r *SyncRequest) Fits(protocolType, name string) bool {
	fits := func(named, is string) bool { return named == is || named == "" && !r.NamesProtocol }
	return fits(r.ProtocolType, protocolType) && fits(r.ProtocolName, name)
}

// A SyncResponse contains the member's own assignment, which must not be written to; it may be
// empty.
type SyncResponse struct {
	ProtocolType, ProtocolName string
	Assignment                 []byte
}

// A HeartbeatRequest keeps a member alive. Kafka: Heartbeat.
type HeartbeatRequest struct {
	Group, MemberID, InstanceID string
	Generation                  int32
}

// A LeaveRequest removes members from a group. Kafka: LeaveGroup.
type LeaveRequest struct {
	Group   string
	Members []LeaveMember
}

// A LeaveMember identifies a member by its id, or a static member by its instance id alone.
type LeaveMember struct {
	MemberID, InstanceID string
	// Reason is why the member leaves, for the events of the group (KIP-800); "" if it sends none.
	// LeaveGroup version 5 and later.
	Reason string
}

// A CommitRequest stores offsets. Kafka: OffsetCommit.
type CommitRequest struct {
	Group, MemberID, InstanceID string
	// Generation is the member's. A commit with -1 and an empty MemberID and InstanceID comes from
	// outside the group, and only a group without members accepts it.
	Generation int32 // the epoch, for a member of the newer protocol
	Offsets    map[record.TopicPartition]record.Committed
	// TopicIDs maps topic names to the ids of the topics that the offsets belong to. Offsets of a
	// topic that now has another id, because it was deleted and created again, are rejected with
	// ErrUnknownTopicOrPartition. Topics that are missing are not checked.
	TopicIDs map[string][16]byte
	// NoEpochs is true if the request's version has no member epochs: members of the newer protocol
	// do not send such requests. OffsetCommit before version 9.
	NoEpochs bool
	// Retention is an explicit lifetime of these offsets, as in OffsetCommit versions 2 to 4; 0:
	// the configured one.
	Retention time.Duration
}

// A TxnCommitRequest stores offsets in a transaction: they take effect when it is committed. Kafka:
// TxnOffsetCommit.
type TxnCommitRequest struct {
	// CommitRequest has the member and the offsets; Retention is 0. A commit with a Generation of
	// -1 and an empty MemberID and InstanceID is not from a member: any group accepts it.
	CommitRequest

	// TransactionalID is the producer's. Its coordinator checks the transaction.
	TransactionalID string

	// TxnVersion is the transaction.version of the client, 0 to 2. From 2 on, the commit adds the
	// group's partition to the transaction; with lower versions the client has added it
	// (AddOffsets). Kafka: 2 from version 5 of the request on.
	TxnVersion int16

	// ProducerID and ProducerEpoch are the transaction's producer. A request in an older epoch than
	// an earlier one is rejected.
	ProducerID    int64
	ProducerEpoch int16
}

// Metadata identifies a member of a group in a generation, for commits on its behalf.
type Metadata struct {
	Group, MemberID, InstanceID string
	Generation                  int32 // -1: no member
	// TopicIDs are as in CommitRequest.
	TopicIDs map[string][16]byte
}
