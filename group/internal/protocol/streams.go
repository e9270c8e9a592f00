package protocol

import (
	"time"

	"github.com/stratalog/strata/internal/offsets"
)

// ProtocolTypeStreams is the protocol type of streams groups.
const ProtocolTypeStreams = "streams"

// A StreamsHeartbeatRequest is the only request of a member of a streams group (KIP-1071): with it
// the member joins, stays and leaves. Kafka: StreamsGroupHeartbeat. The values it refers to are
// kept, and must not be changed afterwards.
type StreamsHeartbeatRequest struct {
	Group    string // not empty
	MemberID string // chosen by the member, a UUID; not empty

	// MemberEpoch is 0 to join, the epoch of the last response to stay, and -1 to leave.
	MemberEpoch int32

	EndpointEpoch        int32  // of the last endpoints that the member got
	RackID               string // "": none, or unchanged
	ClientID, ClientHost string // as in JoinRequest

	// RebalanceTimeout is the time in which the member must give up tasks; negative: unchanged.
	RebalanceTimeout time.Duration

	// Topology is set only when the member joins.
	Topology *offsets.StreamsTopologyValue

	// Owned are the tasks that the member has; nil: unchanged. It has none when it joins.
	Owned *offsets.StreamsTaskRoles

	ProcessID  *string                  // the instance of the application; nil: unchanged
	Endpoint   *offsets.StreamsEndpoint // nil: none, or unchanged
	ClientTags []offsets.StreamsPair    // nil: unchanged

	// ShutdownApplication requests all members to stop.
	ShutdownApplication bool
}

// A StreamsHeartbeatResponse contains the epoch of a member, and its tasks.
type StreamsHeartbeatResponse struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration
	Statuses          []StreamsStatus

	// Assignment is nil if it is unchanged. The member must give up tasks that are not in it, and
	// then send a heartbeat without them. It must not be written to.
	Assignment *offsets.StreamsTaskRoles

	// Queryable lists the members with their states' partitions; nil: as in the EndpointEpoch of
	// the request.
	EndpointEpoch int32
	Queryable     []StreamsQueryable

	// Missing are the internal topics of the topology to be created before tasks are assigned, with
	// their numbers of partitions.
	Missing []offsets.StreamsTopic
}

// A StreamsStatus is a condition of a streams group that is reported to its members.
type StreamsStatus struct {
	Code   StreamsStatusCode
	Detail string // in Kafka's words
}

// StreamsStatusCode is the kind of a StreamsStatus. Kafka: StreamsGroupHeartbeatResponse.Status.
type StreamsStatusCode int8

// The conditions of a streams group.
const (
	StaleTopology                StreamsStatusCode = iota // the member's topology is older than the group's
	MissingSourceTopics                                   // source topics of the application are missing
	IncorrectlyPartitionedTopics                          // topics have a wrong number of partitions
	MissingInternalTopics                                 // internal topics of the application are missing
	ShutdownApplication                                   // a member has requested all members to stop
	AssignmentDelayed                                     // tasks are assigned later
)

// A StreamsQueryable lists the partitions whose state a member has, and its endpoint for queries.
type StreamsQueryable struct {
	Endpoint        offsets.StreamsEndpoint
	Active, Standby []StreamsPartitions
}

// StreamsPartitions are partitions of a topic.
type StreamsPartitions struct {
	Topic      string
	Partitions []int32
}

// A StreamsDescription describes a streams group. Kafka: StreamsGroupDescribe. The values it refers
// to must not be written to.
type StreamsDescription struct {
	State           State
	GroupEpoch      int32
	AssignmentEpoch int32                         // of the target assignment
	Topology        *offsets.StreamsTopologyValue // with the partitions of internal topics, if known
	Members         []StreamsMemberDescription    // sorted by id
}

// A StreamsMemberDescription is a member in a StreamsDescription.
type StreamsMemberDescription struct {
	ID string
	offsets.StreamsMemberValue
	Epoch            int32
	Assigned, Target offsets.StreamsTaskRoles
}
