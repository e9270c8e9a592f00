package group

import (
	"github.com/stratalog/strata/group/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// The requests and responses of the protocol, see package protocol.
type (
	JoinRequest      = protocol.JoinRequest
	JoinResponse     = protocol.JoinResponse
	SyncRequest      = protocol.SyncRequest
	SyncResponse     = protocol.SyncResponse
	HeartbeatRequest = protocol.HeartbeatRequest
	LeaveRequest     = protocol.LeaveRequest
	LeaveMember      = protocol.LeaveMember
	CommitRequest    = protocol.CommitRequest
	TxnCommitRequest = protocol.TxnCommitRequest
	Metadata         = protocol.Metadata
	Rebalanced       = protocol.Rebalanced

	ConsumerHeartbeatRequest  = protocol.ConsumerHeartbeatRequest
	ConsumerHeartbeatResponse = protocol.ConsumerHeartbeatResponse
	ConsumerDescription       = protocol.ConsumerDescription
	ConsumerMemberDescription = protocol.ConsumerMemberDescription

	ShareHeartbeatRequest  = protocol.ShareHeartbeatRequest
	ShareHeartbeatResponse = protocol.ShareHeartbeatResponse
	ShareDescription       = protocol.ShareDescription
	ShareMemberDescription = protocol.ShareMemberDescription

	StreamsHeartbeatRequest  = protocol.StreamsHeartbeatRequest
	StreamsHeartbeatResponse = protocol.StreamsHeartbeatResponse
	StreamsStatus            = protocol.StreamsStatus
	StreamsStatusCode        = protocol.StreamsStatusCode
	StreamsQueryable         = protocol.StreamsQueryable
	StreamsDescription       = protocol.StreamsDescription
	StreamsMemberDescription = protocol.StreamsMemberDescription

	MemberIDRequiredError = protocol.MemberIDRequiredError
	UpgradeError          = protocol.UpgradeError
	MetadataTooLargeError = protocol.MetadataTooLargeError
)

// Type is the kind of a group, as Kafka's tools name it.
type Type = protocol.GroupType

// The kinds of groups, see package protocol.
const (
	Classic  = protocol.Classic
	Consumer = protocol.Consumer
	Share    = protocol.Share
	Streams  = protocol.Streams
)

// State is the state of a group.
type State = protocol.State

// The states of a group, see package protocol.
const (
	Dead                = protocol.Dead
	Empty               = protocol.Empty
	PreparingRebalance  = protocol.PreparingRebalance
	CompletingRebalance = protocol.CompletingRebalance
	Stable              = protocol.Stable
	Assigning           = protocol.Assigning
	Reconciling         = protocol.Reconciling
	NotReady            = protocol.NotReady
)

// What is to be known of a streams group, see package protocol.
const (
	StaleTopology                = protocol.StaleTopology
	MissingSourceTopics          = protocol.MissingSourceTopics
	IncorrectlyPartitionedTopics = protocol.IncorrectlyPartitionedTopics
	MissingInternalTopics        = protocol.MissingInternalTopics
	ShutdownApplication          = protocol.ShutdownApplication
	AssignmentDelayed            = protocol.AssignmentDelayed
)

// ProtocolTypeConsumer is the protocol type of consumer groups.
const ProtocolTypeConsumer = protocol.ProtocolTypeConsumer

// What the coordinator answers. The names in brackets are Kafka's error codes.
var (
	ErrClosed                   = machine.ErrClosed
	ErrInvalidGroupID           = protocol.ErrInvalidGroupID           // INVALID_GROUP_ID
	ErrInvalidSessionTimeout    = protocol.ErrInvalidSessionTimeout    // INVALID_SESSION_TIMEOUT
	ErrUnknownMember            = protocol.ErrUnknownMember            // UNKNOWN_MEMBER_ID: forget the id, join again
	ErrMemberIDRequired         = protocol.ErrMemberIDRequired         // MEMBER_ID_REQUIRED, see MemberIDRequiredError
	ErrFencedInstance           = protocol.ErrFencedInstance           // FENCED_INSTANCE_ID: fatal
	ErrIllegalGeneration        = protocol.ErrIllegalGeneration        // ILLEGAL_GENERATION: join again
	ErrRebalanceInProgress      = protocol.ErrRebalanceInProgress      // REBALANCE_IN_PROGRESS: join again
	ErrInconsistentProtocol     = protocol.ErrInconsistentProtocol     // INCONSISTENT_GROUP_PROTOCOL
	ErrGroupMaxSize             = protocol.ErrGroupMaxSize             // GROUP_MAX_SIZE_REACHED
	ErrCoordinatorNotAvailable  = machine.ErrNotAvailable              // COORDINATOR_NOT_AVAILABLE: retry
	ErrNotCoordinator           = machine.ErrNotLeader                 // NOT_COORDINATOR: look the coordinator up again, retry
	ErrMoving                   = machine.ErrMoving                    // with one of the two above: the group's coordinator changes
	ErrUncertain                = machine.ErrUncertain                 // with ErrNotCoordinator: the change may be stored or not
	ErrLoading                  = protocol.ErrLoading                  // COORDINATOR_LOAD_IN_PROGRESS: retry; only over a network
	ErrNonEmptyGroup            = protocol.ErrNonEmptyGroup            // NON_EMPTY_GROUP
	ErrGroupNotFound            = protocol.ErrGroupNotFound            // GROUP_ID_NOT_FOUND
	ErrGroupSubscribedToTopic   = protocol.ErrGroupSubscribedToTopic   // GROUP_SUBSCRIBED_TO_TOPIC
	ErrOffsetMetadataTooLarge   = protocol.ErrOffsetMetadataTooLarge   // OFFSET_METADATA_TOO_LARGE
	ErrUnknownTopicOrPartition  = protocol.ErrUnknownTopicOrPartition  // UNKNOWN_TOPIC_OR_PARTITION
	ErrTooLarge                 = machine.ErrTooLarge                  // UNKNOWN_SERVER_ERROR: does not fit in one batch of the offsets topic
	ErrUnstableOffsetCommit     = protocol.ErrUnstableOffsetCommit     // UNSTABLE_OFFSET_COMMIT: retry
	ErrInvalidRequest           = protocol.ErrInvalidRequest           // INVALID_REQUEST
	ErrFencedMemberEpoch        = protocol.ErrFencedMemberEpoch        // FENCED_MEMBER_EPOCH: abandon all partitions, join again
	ErrStaleMemberEpoch         = protocol.ErrStaleMemberEpoch         // STALE_MEMBER_EPOCH: send a heartbeat, retry
	ErrUnreleasedInstance       = protocol.ErrUnreleasedInstance       // UNRELEASED_INSTANCE_ID
	ErrUnsupportedAssignor      = protocol.ErrUnsupportedAssignor      // UNSUPPORTED_ASSIGNOR
	ErrInvalidRegularExpression = protocol.ErrInvalidRegularExpression // INVALID_REGULAR_EXPRESSION
	ErrUnsupportedVersion       = protocol.ErrUnsupportedVersion       // UNSUPPORTED_VERSION
	ErrInvalidTopology          = protocol.ErrInvalidTopology          // STREAMS_INVALID_TOPOLOGY
	ErrInvalidOffset            = protocol.ErrInvalidOffset            // of a reset; commits are not checked, as in Kafka
)
