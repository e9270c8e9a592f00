// Package protocol has the requests and responses of the classic group protocol as values, and its
// errors. Package group names them too: applications need not import this one.
package protocol

import (
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// A JoinRequest asks for membership. Kafka: JoinGroup.
type JoinRequest struct {
	Group        string // not empty
	MemberID     string // "": a new member
	InstanceID   string // "": dynamic member; otherwise a name that survives restarts (KIP-345)
	ClientID     string // only for descriptions and as the front of new member ids
	ClientHost   string // "": the member lives in this process, and is gone when its group is loaded by another one
	ProtocolType string // "consumer" for consumer groups; not empty

	// SessionTimeout is how long the member lives without a heartbeat, within the limits of
	// Config. Kafka: session.timeout.ms.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the others wait for this member in a rebalance; 0:
	// SessionTimeout. Kafka: max.poll.interval.ms.
	RebalanceTimeout time.Duration

	// what the member can speak, best first; at least one. Kept: must not be changed afterwards
	Protocols []assignor.Protocol

	// RequireMemberID makes a new dynamic member come twice: the first answer is a
	// *MemberIDRequiredError with the id to use. A client whose first answer is lost leaves no
	// ghost in the group then. JoinGroup version 4 and later.
	RequireMemberID bool
	// SkipAssignment says that the member understands
	// JoinResponse.SkipAssignment. JoinGroup version 9 and later.
	SkipAssignment bool
	Reason         string // for the log

	// Describes is that of ConsumerHeartbeatRequest, where the group has members of that protocol.
	Describes func(topic string) bool
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

	// SkipAssignment tells a group leader that came back under its InstanceID that the assignment
	// stands: it sends an empty SyncRequest.
	SkipAssignment bool
}

// A SyncRequest asks for the member's assignment; the group leader
// brings those of all. Kafka: SyncGroup.
type SyncRequest struct {
	Group, MemberID, InstanceID string
	Generation                  int32
	ProtocolType, ProtocolName  string            // "": not checked, unless NamesProtocol
	NamesProtocol               bool              // the member names its protocol, if by an empty name. Kafka: version 5 (KIP-559)
	Assignments                 map[string][]byte // by member id; ignored unless it comes from the group leader. Kept, not copied
}

// Fits reports whether what the member names is the group's type and its protocol.
func (r *SyncRequest) Fits(protocolType, name string) bool {
	fits := func(named, is string) bool { return named == is || named == "" && !r.NamesProtocol }
	return fits(r.ProtocolType, protocolType) && fits(r.ProtocolName, name)
}

// A SyncResponse carries the member's own assignment, which
// must not be written to; it may be empty.
type SyncResponse struct {
	ProtocolType, ProtocolName string
	Assignment                 []byte
}

// A HeartbeatRequest keeps a member alive. Kafka: Heartbeat.
type HeartbeatRequest struct {
	Group, MemberID, InstanceID string
	Generation                  int32
}

// A LeaveRequest takes members out of a group. Kafka: LeaveGroup.
type LeaveRequest struct {
	Group   string
	Members []LeaveMember
}

// A LeaveMember names a member by its id, or a static one by its instance id alone.
type LeaveMember struct{ MemberID, InstanceID string }

// A CommitRequest stores offsets. Kafka: OffsetCommit.
type CommitRequest struct {
	Group, MemberID, InstanceID string
	// Generation is the member's; -1 with an empty MemberID and InstanceID is a commit from
	// outside, which only a group without members accepts.
	Generation int32 // of a member of the newer protocol its epoch
	Offsets    map[record.TopicPartition]record.Committed
	// TopicIDs, by name, are the ids of the topics that the offsets belong to. Offsets of a topic
	// that has another id now, because it was deleted and created again, are refused with
	// ErrUnknownTopicOrPartition. Topics that are missing are not checked.
	TopicIDs map[string][16]byte
	// NoEpochs says that the client cannot know of member epochs: members of the newer protocol do
	// not send such requests. OffsetCommit before version 9.
	NoEpochs bool
	// Retention is an explicit lifetime for these offsets, as OffsetCommit versions 2 to
	// 4 have it; 0: the configured one.
	Retention time.Duration
}

// A TxnCommitRequest stores offsets in a transaction: they count when it is committed. Kafka:
// TxnOffsetCommit.
type TxnCommitRequest struct {
	// CommitRequest says who commits what, but for Retention, which is 0. A Generation of -1 with
	// an empty MemberID and InstanceID is a commit that no member is named in: any group accepts
	// it.
	CommitRequest

	// TransactionalID is that of the producer: its coordinator is asked about the transaction.
	TransactionalID string

	// TxnVersion is the transaction.version of the client, 0 to 2: from 2 on the commit adds the
	// group's partition to the transaction; before, the client has (AddOffsets). Kafka: 2 from
	// version 5 of the request on.
	TxnVersion int16

	// ProducerID and ProducerEpoch are the transaction's producer. A request in an older epoch than
	// one before is refused.
	ProducerID    int64
	ProducerEpoch int16
}

// Metadata names a member of a group in a generation, for commits on its behalf.
type Metadata struct {
	Group, MemberID, InstanceID string
	Generation                  int32 // -1: no member
	// TopicIDs are those of CommitRequest.
	TopicIDs map[string][16]byte
}
