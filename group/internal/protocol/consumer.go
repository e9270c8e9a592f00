package protocol

import (
	"time"

	"github.com/stratalog/strata/internal/offsets"
)

// A ConsumerHeartbeatRequest is the only request of a member of the newer protocol (KIP-848): with
// it the member joins, stays and leaves. Kafka: ConsumerGroupHeartbeat.
type ConsumerHeartbeatRequest struct {
	Group    string // not empty
	MemberID string // chosen by the member, a UUID; "": the coordinator chooses one

	// MemberEpoch is 0 to join, the epoch of the last response to stay, -1 to leave, and -2 to leave
	// temporarily as a static member.
	MemberEpoch int32

	InstanceID           string // "": dynamic member, or unchanged
	RackID               string // "": none, or unchanged
	ClientID, ClientHost string // as in JoinRequest

	// RebalanceTimeout is the time in which the member must give up partitions; negative:
	// unchanged. Kafka: max.poll.interval.ms.
	RebalanceTimeout time.Duration

	// SubscribedTopics are the names of topics, which need not exist; nil: unchanged.
	// SubscribedRegex is an expression in RE2's syntax that matches whole names; nil: unchanged,
	// "": none. Both may be set. They are kept and must not be changed afterwards. An expression
	// whose program has more than about 2000 instructions, such as a list of more than 100 names,
	// is rejected.
	SubscribedTopics []string
	SubscribedRegex  *string

	// Describes reports whether the member may learn of a topic; nil: of every topic. Some regular
	// expressions of the group are resolved during this request, because they are new or topics
	// have changed. They match no topic for which Describes returns false; as in Kafka they belong
	// to the group, not the member. It only computes, and must be safe for concurrent use. It is
	// called on the goroutine that sends the request.
	Describes func(topic string) bool

	// Owner is the principal of the member, or its host; "" for members of this process. Regular
	// expressions are evaluated in turns, one owner after the other. After half a second without
	// all results the response is sent, and later heartbeats continue.
	Owner string

	Assignor string // name of one of Config.ConsumerAssignors; "": the group's, or unchanged

	// Reason is why the member leaves, for the events of the group; "" if it sends none. Kafka's
	// request does not have it.
	Reason string

	// Owned are the partitions that the member has; nil: unchanged. It is not nil and empty when
	// the member joins.
	Owned []offsets.TopicIDPartitions
}

// A ConsumerHeartbeatResponse contains the epoch and the assignment of a member.
type ConsumerHeartbeatResponse struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration

	// Assignment is nil if it is unchanged. The member must give up partitions that are not in it,
	// and then send a heartbeat without them. It must not be written to.
	Assignment []offsets.TopicIDPartitions

	// RetryAfter is the time until the member should send its next heartbeat, if that is earlier
	// than the interval: by then the group may have a new assignment, or other members may have
	// given up partitions for this one. 0: the interval applies. Kafka's response does not have it.
	RetryAfter time.Duration
}

// A ConsumerDescription describes a group of the newer protocol. Kafka: ConsumerGroupDescribe.
type ConsumerDescription struct {
	State           State
	GroupEpoch      int32
	AssignmentEpoch int32 // of the target assignment
	Assignor        string
	Members         []ConsumerMemberDescription // sorted by id
}

// A ConsumerMemberDescription is a member in a ConsumerDescription. Its slices must not be written
// to.
type ConsumerMemberDescription struct {
	ID, InstanceID, RackID, ClientID, ClientHost string
	Epoch                                        int32
	Topics                                       []string // subscribed to by name
	Regex                                        string   // "": none
	Assigned                                     []offsets.TopicIDPartitions
	Target                                       []offsets.TopicIDPartitions // target assignment
	Classic                                      bool                        // it uses the classic protocol
}
