package protocol

import (
	"time"

	"github.com/stratalog/strata/internal/offsets"
)

// ProtocolTypeShare is the protocol type of share groups.
const ProtocolTypeShare = "share"

// A ShareHeartbeatRequest is the only request of a member of a share group (KIP-932) to its
// coordinator: with it the member joins, stays and leaves. Kafka: ShareGroupHeartbeat.
type ShareHeartbeatRequest struct {
	Group    string // not empty
	MemberID string // chosen by the member, a UUID; not empty

	// MemberEpoch is 0 to join, the epoch of the last response to stay, and -1 to leave.
	MemberEpoch int32

	RackID               string // "": none, or unchanged
	ClientID, ClientHost string // as in JoinRequest

	// SubscribedTopics are the names of topics, which need not exist; nil: unchanged. It is not nil
	// when the member joins. It is kept and must not be changed afterwards.
	SubscribedTopics []string
}

// A ShareHeartbeatResponse contains the epoch of a member, and the partitions whose records it
// gets.
type ShareHeartbeatResponse struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration

	// Assignment is nil if it is unchanged. It must not be written to.
	Assignment []offsets.TopicIDPartitions
}

// A ShareDescription describes a share group. Kafka: ShareGroupDescribe.
type ShareDescription struct {
	State           State
	GroupEpoch      int32
	AssignmentEpoch int32 // of the target assignment
	Assignor        string
	Members         []ShareMemberDescription // sorted by id
}

// A ShareMemberDescription is a member in a ShareDescription. Its slices must not be written to.
type ShareMemberDescription struct {
	ID, RackID, ClientID, ClientHost string
	Epoch                            int32
	Topics                           []string
	Assigned                         []offsets.TopicIDPartitions
}
