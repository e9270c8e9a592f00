package group

import (
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// The requests and responses of the group protocols, and the errors that carry more than a cause.
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
	MemberInfo       = protocol.MemberInfo

	ConsumerHeartbeatRequest  = protocol.ConsumerHeartbeatRequest
	ConsumerHeartbeatResponse = protocol.ConsumerHeartbeatResponse
	ConsumerDescription       = protocol.ConsumerDescription

	ShareHeartbeatRequest  = protocol.ShareHeartbeatRequest
	ShareHeartbeatResponse = protocol.ShareHeartbeatResponse
	ShareDescription       = protocol.ShareDescription

	StreamsHeartbeatRequest  = protocol.StreamsHeartbeatRequest
	StreamsHeartbeatResponse = protocol.StreamsHeartbeatResponse
	StreamsQueryable         = protocol.StreamsQueryable
	StreamsDescription       = protocol.StreamsDescription

	MemberIDRequiredError = protocol.MemberIDRequiredError
	UpgradeError          = protocol.UpgradeError
	MetadataTooLargeError = protocol.MetadataTooLargeError
)

// The events of groups.
type (
	Event     = protocol.Event
	EventKind = protocol.EventKind
	Cause     = protocol.Cause
	CauseKind = protocol.CauseKind
)

// The kinds of events, in Kafka's words for the states of a group.
const (
	EventsMissed  = protocol.EventsMissed
	Joining       = protocol.Joining
	Joined        = protocol.Joined
	Assigned      = protocol.Assigned
	Emptied       = protocol.Emptied
	Removed       = protocol.Removed
	CommitRefused = protocol.CommitRefused
)

// PollTimeoutReason is the Reason of a member that leaves because its application does not poll, as
// in Kafka's consumer.
const PollTimeoutReason = protocol.PollTimeoutReason

// The kinds of causes.
const (
	CauseUnknown           = protocol.CauseUnknown
	CauseJoined            = protocol.CauseJoined
	CauseLeft              = protocol.CauseLeft
	CauseSessionExpired    = protocol.CauseSessionExpired
	CausePollExceeded      = protocol.CausePollExceeded
	CauseNotRejoined       = protocol.CauseNotRejoined
	CauseNotSynced         = protocol.CauseNotSynced
	CauseNotRevoked        = protocol.CauseNotRevoked
	CauseRejoined          = protocol.CauseRejoined
	CauseSubscription      = protocol.CauseSubscription
	CauseMetadata          = protocol.CauseMetadata
	CauseStaticReplaced    = protocol.CauseStaticReplaced
	CauseGaveUp            = protocol.CauseGaveUp
	CauseTopicCreated      = protocol.CauseTopicCreated
	CauseTopicGrew         = protocol.CauseTopicGrew
	CauseTopicDeleted      = protocol.CauseTopicDeleted
	CauseTopics            = protocol.CauseTopics
	CauseRemoved           = protocol.CauseRemoved
	CauseFull              = protocol.CauseFull
	CauseCoordinatorLoaded = protocol.CauseCoordinatorLoaded
	CauseConfig            = protocol.CauseConfig
	CauseTopology          = protocol.CauseTopology
	CauseSharesReady       = protocol.CauseSharesReady
	CauseDeleted           = protocol.CauseDeleted
	CauseExpired           = protocol.CauseExpired
)

// Type is the kind of a group, by its name in Kafka's tools.
type Type = protocol.GroupType

// The kinds of groups.
const (
	Classic  = protocol.Classic
	Consumer = protocol.Consumer
	Share    = protocol.Share
	Streams  = protocol.Streams
)

// State is the state of a group.
type State = protocol.State

// The states of a group.
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

// MissingInternalTopics is the status code of a streams group whose internal topics are to be made
// (KIP-1071).
const MissingInternalTopics = protocol.MissingInternalTopics

// ProtocolTypeConsumer is the protocol type of consumer groups.
const ProtocolTypeConsumer = protocol.ProtocolTypeConsumer

// Errors of the coordinator. The comments name Kafka's error codes.
var (
	ErrClosed                   = machine.ErrClosed
	ErrInvalidGroupID           = protocol.ErrInvalidGroupID           // INVALID_GROUP_ID
	ErrInvalidSessionTimeout    = protocol.ErrInvalidSessionTimeout    // INVALID_SESSION_TIMEOUT
	ErrUnknownMember            = protocol.ErrUnknownMember            // UNKNOWN_MEMBER_ID: discard the id, join again
	ErrMemberIDRequired         = protocol.ErrMemberIDRequired         // MEMBER_ID_REQUIRED, see MemberIDRequiredError
	ErrFencedInstance           = protocol.ErrFencedInstance           // FENCED_INSTANCE_ID: fatal
	ErrIllegalGeneration        = protocol.ErrIllegalGeneration        // ILLEGAL_GENERATION: join again
	ErrRebalanceInProgress      = protocol.ErrRebalanceInProgress      // REBALANCE_IN_PROGRESS: join again
	ErrInconsistentProtocol     = protocol.ErrInconsistentProtocol     // INCONSISTENT_GROUP_PROTOCOL
	ErrGroupMaxSize             = protocol.ErrGroupMaxSize             // GROUP_MAX_SIZE_REACHED
	ErrCoordinatorNotAvailable  = machine.ErrNotAvailable              // COORDINATOR_NOT_AVAILABLE: retry
	ErrNotCoordinator           = machine.ErrNotLeader                 // NOT_COORDINATOR: find the coordinator again, retry
	ErrMoving                   = machine.ErrMoving                    // together with one of the two above: the group's coordinator is changing
	ErrUncertain                = machine.ErrUncertain                 // together with ErrNotCoordinator: the change may or may not be stored
	ErrLoading                  = protocol.ErrLoading                  // COORDINATOR_LOAD_IN_PROGRESS: retry; only over a network
	ErrNonEmptyGroup            = protocol.ErrNonEmptyGroup            // NON_EMPTY_GROUP
	ErrGroupNotFound            = protocol.ErrGroupNotFound            // GROUP_ID_NOT_FOUND
	ErrGroupSubscribedToTopic   = protocol.ErrGroupSubscribedToTopic   // GROUP_SUBSCRIBED_TO_TOPIC
	ErrOffsetMetadataTooLarge   = protocol.ErrOffsetMetadataTooLarge   // OFFSET_METADATA_TOO_LARGE
	ErrOffsetsFull              = protocol.ErrOffsetsFull              // INVALID_COMMIT_OFFSET_SIZE: see docs/limits.md
	ErrUnknownTopicOrPartition  = protocol.ErrUnknownTopicOrPartition  // UNKNOWN_TOPIC_OR_PARTITION
	ErrTooLarge                 = machine.ErrTooLarge                  // UNKNOWN_SERVER_ERROR: larger than one batch of the offsets topic
	ErrUnstableOffsetCommit     = protocol.ErrUnstableOffsetCommit     // UNSTABLE_OFFSET_COMMIT: retry
	ErrInvalidRequest           = protocol.ErrInvalidRequest           // INVALID_REQUEST
	ErrFencedMemberEpoch        = protocol.ErrFencedMemberEpoch        // FENCED_MEMBER_EPOCH: abandon all partitions, join again
	ErrStaleMemberEpoch         = protocol.ErrStaleMemberEpoch         // STALE_MEMBER_EPOCH: send a heartbeat, retry
	ErrUnreleasedInstance       = protocol.ErrUnreleasedInstance       // UNRELEASED_INSTANCE_ID
	ErrUnsupportedAssignor      = protocol.ErrUnsupportedAssignor      // UNSUPPORTED_ASSIGNOR
	ErrInvalidRegularExpression = protocol.ErrInvalidRegularExpression // INVALID_REGULAR_EXPRESSION
	ErrUnsupportedVersion       = protocol.ErrUnsupportedVersion       // UNSUPPORTED_VERSION
	ErrInvalidTopology          = protocol.ErrInvalidTopology          // STREAMS_INVALID_TOPOLOGY
	ErrInvalidOffset            = protocol.ErrInvalidOffset            // only from resets; commits are not checked, as in Kafka
)
