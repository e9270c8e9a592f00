package protocol

import (
	"time"

	"github.com/stratalog/strata/group/offsets"
)

// ProtocolTypeShare is the protocol type of share groups.
const ProtocolTypeShare = "share"

// A ShareHeartbeatRequest is all that a member of a share group (KIP-932) says to its coordinator:
// it joins, stays and leaves by it. Kafka: ShareGroupHeartbeat.
type ShareHeartbeatRequest struct {
	Group    string // not empty
	MemberID string // chosen by the member, a UUID; not empty

	// MemberEpoch is 0 of a member that joins, what it was last told of one that stays, -1 of one
	// that leaves.
	MemberEpoch int32

	RackID               string // "": none, or as before
	ClientID, ClientHost string // as in JoinRequest

	// SubscribedTopics are the names of topics, which need not exist; nil: as before. Not nil when
	// the member joins. Kept: must not be changed afterwards.
	SubscribedTopics []string
}

// A ShareHeartbeatResponse tells a member its epoch, and which partitions it takes records from.
type ShareHeartbeatResponse struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration

	// Assignment is nil if it is as before. It must not be written to.
	Assignment []offsets.TopicIDPartitions
}

// A ShareDescription describes a share group. Kafka: ShareGroupDescribe.
type ShareDescription struct {
	State           State
	GroupEpoch      int32
	AssignmentEpoch int32 // of the target assignment
	Assignor        string
	Members         []ShareMemberDescription // by id
}

// A ShareMemberDescription is a member in a ShareDescription. Its slices must not be written to.
type ShareMemberDescription struct {
	ID, RackID, ClientID, ClientHost string
	Epoch                            int32
	Topics                           []string
	Assigned                         []offsets.TopicIDPartitions
}
