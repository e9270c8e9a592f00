package protocol

import (
	"time"

	"github.com/stratalog/strata/group/offsets"
)

// A ConsumerHeartbeatRequest is all that a member of the newer protocol (KIP-848) says: it joins,
// stays and leaves by it. Kafka: ConsumerGroupHeartbeat.
type ConsumerHeartbeatRequest struct {
	Group    string // not empty
	MemberID string // chosen by the member, a UUID; "": a new one is made up for it

	// MemberEpoch is 0 of a member that joins, what it was last told of one that stays, -1 of one
	// that leaves, -2 of a static one that leaves and will be back.
	MemberEpoch int32

	InstanceID           string // "": dynamic member, or as before
	RackID               string // "": none, or as before
	ClientID, ClientHost string // as in JoinRequest

	// RebalanceTimeout is how long the member may take to give up partitions; below 0: as before.
	// Kafka: max.poll.interval.ms.
	RebalanceTimeout time.Duration

	// SubscribedTopics are the names of topics, which need not exist; nil: as before.
	// SubscribedRegex is an expression in RE2's syntax that matches whole names; nil: as before,
	// "": none. Both may be there. Kept: must not be changed afterwards. An expression whose
	// program has more than about 2000 instructions, as a list of more than 100 names, is refused.
	SubscribedTopics []string
	SubscribedRegex  *string

	// Describes reports whether the member may know of a topic; nil: of each. Regular expressions
	// of the group that are resolved when this request comes, since they are new or the topics are
	// others, match no topic that it refuses; as in Kafka they are the group's, not the member's.
	// It only computes, and is safe for concurrent use. The goroutine that sends the request asks,
	// and matches.
	Describes func(topic string) bool

	Assignor string // by name, one of Config.ConsumerAssignors; "": the group's, or as before

	// Owned are the partitions that the member has; nil: as before. Not nil and empty when it
	// joins.
	Owned []offsets.TopicIDPartitions
}

// A ConsumerHeartbeatResponse tells a member its epoch, and what it is to have.
type ConsumerHeartbeatResponse struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration

	// Assignment is nil if it is as before. What the member has and is not in it, it must give up,
	// and then say so. It must not be written to.
	Assignment []offsets.TopicIDPartitions

	// RetryAfter is when the member had better be heard of again, if it need not wait for its next
	// heartbeat: then the group may share its partitions out anew, or others may have given up what
	// is to be this member's. 0: nothing is known. Kafka's answer does not have it.
	RetryAfter time.Duration
}

// A ConsumerDescription describes a group of the newer protocol. Kafka: ConsumerGroupDescribe.
type ConsumerDescription struct {
	State           State
	GroupEpoch      int32
	AssignmentEpoch int32 // of the target assignment
	Assignor        string
	Members         []ConsumerMemberDescription // by id
}

// A ConsumerMemberDescription is a member in a ConsumerDescription. Its slices must not be written
// to.
type ConsumerMemberDescription struct {
	ID, InstanceID, RackID, ClientID, ClientHost string
	Epoch                                        int32
	Topics                                       []string // subscribed to by name
	Regex                                        string   // "": none
	Assigned                                     []offsets.TopicIDPartitions
	Target                                       []offsets.TopicIDPartitions // what it is meant to have
	Classic                                      bool                        // it speaks the classic protocol
}
