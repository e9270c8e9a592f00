package protocol

import (
	"time"

	"github.com/stratalog/strata/group/offsets"
)

// ProtocolTypeStreams is the protocol type of streams groups.
const ProtocolTypeStreams = "streams"

// A StreamsHeartbeatRequest is all that a member of a streams group (KIP-1071) says: it joins,
// stays and leaves by it. Kafka: StreamsGroupHeartbeat. What it refers to is kept, and must not be
// changed afterwards.
type StreamsHeartbeatRequest struct {
	Group    string // not empty
	MemberID string // chosen by the member, a UUID; not empty

	// MemberEpoch is 0 of a member that joins, what it was last told of one that stays, -1 of one
	// that leaves.
	MemberEpoch int32

	EndpointEpoch        int32  // of what it last heard of the endpoints of all members
	RackID               string // "": none, or as before
	ClientID, ClientHost string // as in JoinRequest

	// RebalanceTimeout is how long the member may take to give up tasks; below 0: as before.
	RebalanceTimeout time.Duration

	// Topology is there when the member joins, and only then.
	Topology *offsets.StreamsTopologyValue

	// Owned are the tasks that the member has; nil: as before. It has none when it joins.
	Owned *offsets.StreamsTaskRoles

	ProcessID  *string                  // the instance of the application; nil: as before
	Endpoint   *offsets.StreamsEndpoint // nil: none, or as before
	ClientTags []offsets.StreamsPair    // nil: as before

	// ShutdownApplication asks all members to stop.
	ShutdownApplication bool
}

// A StreamsHeartbeatResponse tells a member its epoch, and the tasks that it is to have.
type StreamsHeartbeatResponse struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration
	Statuses          []StreamsStatus

	// Assignment is nil if it is as before. What the member has and is not in it, it must give up,
	// and then say so. It must not be written to.
	Assignment *offsets.StreamsTaskRoles

	// Queryable says which member has the state of which partitions; nil: as in the epoch that the
	// member has told.
	EndpointEpoch int32
	Queryable     []StreamsQueryable

	// Missing are the internal topics of the topology that are to be created before there are
	// tasks, with as many partitions as they say.
	Missing []offsets.StreamsTopic
}

// A StreamsStatus is something that members of a streams group are to know.
type StreamsStatus struct {
	Code   StreamsStatusCode
	Detail string // in Kafka's words
}

// StreamsStatusCode is the kind of a StreamsStatus. Kafka: StreamsGroupHeartbeatResponse.Status.
type StreamsStatusCode int8

// What is to be known of a streams group.
const (
	StaleTopology                StreamsStatusCode = iota // the member's topology is older than the group's
	MissingSourceTopics                                   // the application's sources are not there
	IncorrectlyPartitionedTopics                          // topics have another number of partitions than they need
	MissingInternalTopics                                 // topics of the application are still to be created
	ShutdownApplication                                   // a member has asked all to stop
	AssignmentDelayed                                     // tasks are assigned later
)

// A StreamsQueryable says of which partitions a member has the state, and where it can be asked.
type StreamsQueryable struct {
	Endpoint        offsets.StreamsEndpoint
	Active, Standby []StreamsPartitions
}

// StreamsPartitions are partitions of a topic.
type StreamsPartitions struct {
	Topic      string
	Partitions []int32
}

// A StreamsDescription describes a streams group. Kafka: StreamsGroupDescribe. Nothing that it
// refers to must be written to.
type StreamsDescription struct {
	State           State
	GroupEpoch      int32
	AssignmentEpoch int32                         // of the target assignment
	Topology        *offsets.StreamsTopologyValue // with the partitions of internal topics, if they are known
	Members         []StreamsMemberDescription    // by id
}

// A StreamsMemberDescription is a member in a StreamsDescription.
type StreamsMemberDescription struct {
	ID string
	offsets.StreamsMemberValue
	Epoch            int32
	Assigned, Target offsets.StreamsTaskRoles
}
