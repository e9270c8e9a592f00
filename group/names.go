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

// The events of groups, see Coordinator.Events.
type (
	// An Event is something that happened to a group. Its Kind determines which fields are set. It
	// has at most 16 causes, 64 members and 512 partitions; MoreCauses and Size have the whole
	// numbers. Texts of clients have at most 255 bytes. The slices are shared and must not be
	// written to.
	Event     = protocol.Event
	EventKind = protocol.EventKind
	// A Cause is a reason for a rebalance. Its Kind determines which fields are set. Its String is
	// a sentence without a point, as in the log.
	Cause     = protocol.Cause
	CauseKind = protocol.CauseKind
)

// The kinds of events. A rebalance is a Joining, a Joined and an Assigned event. If another one
// begins before its end, Joining and Joined are repeated, and Assigned has the causes of all.
const (
	// EventsMissed: the reader was too slow, and Missed events were dropped.
	EventsMissed = protocol.EventsMissed
	// Joining: a rebalance has begun. The members of a classic group join again. In groups of the
	// other types a group epoch begins, and a new target assignment is due.
	Joining = protocol.Joining
	// Joined: the members of the generation are known, and the partitions are assigned next. In
	// groups of other types than classic there is a new target assignment.
	Joined = protocol.Joined
	// Assigned: the rebalance has ended, and each member has its partitions.
	Assigned = protocol.Assigned
	// Emptied: the last member has left.
	Emptied = protocol.Emptied
	// Removed: the group was deleted, or has expired.
	Removed = protocol.Removed
	// CommitRefused: a commit of Member was rejected, because of Err. After such an event the next
	// one of the group comes a second later at the earliest. Its Refused is the number of commits
	// rejected since.
	CommitRefused = protocol.CommitRefused
)

// PollTimeoutReason is the Reason of a member that leaves because its application does not poll, as
// in Kafka's consumer.
const PollTimeoutReason = protocol.PollTimeoutReason

// The kinds of causes. Member, Topic and After are fields of the Cause.
const (
	// CauseUnknown is the zero value.
	CauseUnknown = protocol.CauseUnknown
	// CauseJoined: Member joined the group.
	CauseJoined = protocol.CauseJoined
	// CauseLeft: Member left.
	CauseLeft = protocol.CauseLeft
	// CauseSessionExpired: Member sent no heartbeat for After.
	CauseSessionExpired = protocol.CauseSessionExpired
	// CausePollExceeded: Member left, because its application did not poll within
	// max.poll.interval.ms.
	CausePollExceeded = protocol.CausePollExceeded
	// CauseNotRejoined: Member did not join again within After, the rebalance timeout.
	CauseNotRejoined = protocol.CauseNotRejoined
	// CauseNotSynced: Member did not fetch its assignment within After, the rebalance timeout.
	CauseNotSynced = protocol.CauseNotSynced
	// CauseNotRevoked: Member did not give up its partitions within After, the rebalance timeout.
	CauseNotRevoked = protocol.CauseNotRevoked
	// CauseRejoined: Member, often the group leader, joined again.
	CauseRejoined = protocol.CauseRejoined
	// CauseSubscription: Member subscribes to other topics than before.
	CauseSubscription = protocol.CauseSubscription
	// CauseMetadata: Member has other metadata than before: rack, assignor, client, protocols.
	CauseMetadata = protocol.CauseMetadata
	// CauseStaticReplaced: Member replaces the static member with its instance id.
	CauseStaticReplaced = protocol.CauseStaticReplaced
	// CauseGaveUp: Member gave up partitions, and they can be assigned in a second round.
	CauseGaveUp = protocol.CauseGaveUp
	// CauseTopicCreated: Topic was created.
	CauseTopicCreated = protocol.CauseTopicCreated
	// CauseTopicGrew: Topic has more partitions.
	CauseTopicGrew = protocol.CauseTopicGrew
	// CauseTopicDeleted: Topic was deleted.
	CauseTopicDeleted = protocol.CauseTopicDeleted
	// CauseTopics: topics of the group have changed, but the earlier ones are not known.
	CauseTopics = protocol.CauseTopics
	// CauseRemoved: an administrator removed Member, or all members if it is "".
	CauseRemoved = protocol.CauseRemoved
	// CauseFull: Member was removed, because the group is full.
	CauseFull = protocol.CauseFull
	// CauseCoordinatorLoaded: the coordinator was loaded again, after a restart or a move; Member,
	// if any, was in the earlier process.
	CauseCoordinatorLoaded = protocol.CauseCoordinatorLoaded
	// CauseConfig: the configuration of the group has changed.
	CauseConfig = protocol.CauseConfig
	// CauseTopology: streams groups: topics of the topology became complete, or incomplete.
	CauseTopology = protocol.CauseTopology
	// CauseSharesReady: share groups: new partitions can be read.
	CauseSharesReady = protocol.CauseSharesReady
	// CauseDeleted: an administrator deleted the group or its offsets.
	CauseDeleted = protocol.CauseDeleted
	// CauseExpired: the group has expired.
	CauseExpired = protocol.CauseExpired
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
