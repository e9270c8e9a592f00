package kafka

import "strconv"

// A Code is an error code of Kafka's protocol. 0 means no error. The names are Kafka's
// (org.apache.kafka.common.protocol.Errors, 4.3).
type Code int16

// The error codes of Kafka 4.3.
const (
	UnknownServerError                 Code = -1
	OffsetOutOfRange                   Code = 1
	CorruptMessage                     Code = 2
	UnknownTopicOrPartition            Code = 3
	InvalidFetchSize                   Code = 4
	LeaderNotAvailable                 Code = 5
	NotLeaderOrFollower                Code = 6
	RequestTimedOut                    Code = 7
	BrokerNotAvailable                 Code = 8
	ReplicaNotAvailable                Code = 9
	MessageTooLarge                    Code = 10
	StaleControllerEpoch               Code = 11
	OffsetMetadataTooLarge             Code = 12
	NetworkException                   Code = 13
	CoordinatorLoadInProgress          Code = 14
	CoordinatorNotAvailable            Code = 15
	NotCoordinator                     Code = 16
	InvalidTopicException              Code = 17
	RecordListTooLarge                 Code = 18
	NotEnoughReplicas                  Code = 19
	NotEnoughReplicasAfterAppend       Code = 20
	InvalidRequiredAcks                Code = 21
	IllegalGeneration                  Code = 22
	InconsistentGroupProtocol          Code = 23
	InvalidGroupID                     Code = 24
	UnknownMemberID                    Code = 25
	InvalidSessionTimeout              Code = 26
	RebalanceInProgress                Code = 27
	InvalidCommitOffsetSize            Code = 28
	TopicAuthorizationFailed           Code = 29
	GroupAuthorizationFailed           Code = 30
	ClusterAuthorizationFailed         Code = 31
	InvalidTimestamp                   Code = 32
	UnsupportedSASLMechanism           Code = 33
	IllegalSASLState                   Code = 34
	UnsupportedVersion                 Code = 35
	TopicAlreadyExists                 Code = 36
	InvalidPartitions                  Code = 37
	InvalidReplicationFactor           Code = 38
	InvalidReplicaAssignment           Code = 39
	InvalidConfig                      Code = 40
	NotController                      Code = 41
	InvalidRequest                     Code = 42
	UnsupportedForMessageFormat        Code = 43
	PolicyViolation                    Code = 44
	OutOfOrderSequenceNumber           Code = 45
	DuplicateSequenceNumber            Code = 46
	InvalidProducerEpoch               Code = 47
	InvalidTxnState                    Code = 48
	InvalidProducerIDMapping           Code = 49
	InvalidTransactionTimeout          Code = 50
	ConcurrentTransactions             Code = 51
	TransactionCoordinatorFenced       Code = 52
	TransactionalIDAuthorizationFailed Code = 53
	SecurityDisabled                   Code = 54
	OperationNotAttempted              Code = 55
	KafkaStorageError                  Code = 56
	LogDirNotFound                     Code = 57
	SASLAuthenticationFailed           Code = 58
	UnknownProducerID                  Code = 59
	ReassignmentInProgress             Code = 60
	DelegationTokenAuthDisabled        Code = 61
	DelegationTokenNotFound            Code = 62
	DelegationTokenOwnerMismatch       Code = 63
	DelegationTokenRequestNotAllowed   Code = 64
	DelegationTokenAuthorizationFailed Code = 65
	DelegationTokenExpired             Code = 66
	InvalidPrincipalType               Code = 67
	NonEmptyGroup                      Code = 68
	GroupIDNotFound                    Code = 69
	FetchSessionIDNotFound             Code = 70
	InvalidFetchSessionEpoch           Code = 71
	ListenerNotFound                   Code = 72
	TopicDeletionDisabled              Code = 73
	FencedLeaderEpoch                  Code = 74
	UnknownLeaderEpoch                 Code = 75
	UnsupportedCompressionType         Code = 76
	StaleBrokerEpoch                   Code = 77
	OffsetNotAvailable                 Code = 78
	MemberIDRequired                   Code = 79
	PreferredLeaderNotAvailable        Code = 80
	GroupMaxSizeReached                Code = 81
	FencedInstanceID                   Code = 82
	EligibleLeadersNotAvailable        Code = 83
	ElectionNotNeeded                  Code = 84
	NoReassignmentInProgress           Code = 85
	GroupSubscribedToTopic             Code = 86
	InvalidRecord                      Code = 87
	UnstableOffsetCommit               Code = 88
	ThrottlingQuotaExceeded            Code = 89
	ProducerFenced                     Code = 90
	ResourceNotFound                   Code = 91
	DuplicateResource                  Code = 92
	UnacceptableCredential             Code = 93
	InconsistentVoterSet               Code = 94
	InvalidUpdateVersion               Code = 95
	FeatureUpdateFailed                Code = 96
	PrincipalDeserializationFailure    Code = 97
	SnapshotNotFound                   Code = 98
	PositionOutOfRange                 Code = 99
	UnknownTopicID                     Code = 100
	DuplicateBrokerRegistration        Code = 101
	BrokerIDNotRegistered              Code = 102
	InconsistentTopicID                Code = 103
	InconsistentClusterID              Code = 104
	TransactionalIDNotFound            Code = 105
	FetchSessionTopicIDError           Code = 106
	IneligibleReplica                  Code = 107
	NewLeaderElected                   Code = 108
	OffsetMovedToTieredStorage         Code = 109
	FencedMemberEpoch                  Code = 110
	UnreleasedInstanceID               Code = 111
	UnsupportedAssignor                Code = 112
	StaleMemberEpoch                   Code = 113
	MismatchedEndpointType             Code = 114
	UnsupportedEndpointType            Code = 115
	UnknownControllerID                Code = 116
	UnknownSubscriptionID              Code = 117
	TelemetryTooLarge                  Code = 118
	InvalidRegistration                Code = 119
	TransactionAbortable               Code = 120
	InvalidRecordState                 Code = 121
	ShareSessionNotFound               Code = 122
	InvalidShareSessionEpoch           Code = 123
	FencedStateEpoch                   Code = 124
	InvalidVoterKey                    Code = 125
	DuplicateVoter                     Code = 126
	VoterNotFound                      Code = 127
	InvalidRegularExpression           Code = 128
	RebootstrapRequired                Code = 129
	StreamsInvalidTopology             Code = 130
	StreamsInvalidTopologyEpoch        Code = 131
	StreamsTopologyFenced              Code = 132
	ShareSessionLimitReached           Code = 133
)

// String returns Kafka's name, as OFFSET_OUT_OF_RANGE, or the number of an unknown code.
func (c Code) String() string {
	if i := int(c) + 1; i >= 0 && i < len(codeNames) {
		return codeNames[i]
	}
	return strconv.Itoa(int(c))
}

// codeNames holds the names from code -1 on.
var codeNames = [...]string{
	"UNKNOWN_SERVER_ERROR",
	"NONE",
	"OFFSET_OUT_OF_RANGE",
	"CORRUPT_MESSAGE",
	"UNKNOWN_TOPIC_OR_PARTITION",
	"INVALID_FETCH_SIZE",
	"LEADER_NOT_AVAILABLE",
	"NOT_LEADER_OR_FOLLOWER",
	"REQUEST_TIMED_OUT",
	"BROKER_NOT_AVAILABLE",
	"REPLICA_NOT_AVAILABLE",
	"MESSAGE_TOO_LARGE",
	"STALE_CONTROLLER_EPOCH",
	"OFFSET_METADATA_TOO_LARGE",
	"NETWORK_EXCEPTION",
	"COORDINATOR_LOAD_IN_PROGRESS",
	"COORDINATOR_NOT_AVAILABLE",
	"NOT_COORDINATOR",
	"INVALID_TOPIC_EXCEPTION",
	"RECORD_LIST_TOO_LARGE",
	"NOT_ENOUGH_REPLICAS",
	"NOT_ENOUGH_REPLICAS_AFTER_APPEND",
	"INVALID_REQUIRED_ACKS",
	"ILLEGAL_GENERATION",
	"INCONSISTENT_GROUP_PROTOCOL",
	"INVALID_GROUP_ID",
	"UNKNOWN_MEMBER_ID",
	"INVALID_SESSION_TIMEOUT",
	"REBALANCE_IN_PROGRESS",
	"INVALID_COMMIT_OFFSET_SIZE",
	"TOPIC_AUTHORIZATION_FAILED",
	"GROUP_AUTHORIZATION_FAILED",
	"CLUSTER_AUTHORIZATION_FAILED",
	"INVALID_TIMESTAMP",
	"UNSUPPORTED_SASL_MECHANISM",
	"ILLEGAL_SASL_STATE",
	"UNSUPPORTED_VERSION",
	"TOPIC_ALREADY_EXISTS",
	"INVALID_PARTITIONS",
	"INVALID_REPLICATION_FACTOR",
	"INVALID_REPLICA_ASSIGNMENT",
	"INVALID_CONFIG",
	"NOT_CONTROLLER",
	"INVALID_REQUEST",
	"UNSUPPORTED_FOR_MESSAGE_FORMAT",
	"POLICY_VIOLATION",
	"OUT_OF_ORDER_SEQUENCE_NUMBER",
	"DUPLICATE_SEQUENCE_NUMBER",
	"INVALID_PRODUCER_EPOCH",
	"INVALID_TXN_STATE",
	"INVALID_PRODUCER_ID_MAPPING",
	"INVALID_TRANSACTION_TIMEOUT",
	"CONCURRENT_TRANSACTIONS",
	"TRANSACTION_COORDINATOR_FENCED",
	"TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
	"SECURITY_DISABLED",
	"OPERATION_NOT_ATTEMPTED",
	"KAFKA_STORAGE_ERROR",
	"LOG_DIR_NOT_FOUND",
	"SASL_AUTHENTICATION_FAILED",
	"UNKNOWN_PRODUCER_ID",
	"REASSIGNMENT_IN_PROGRESS",
	"DELEGATION_TOKEN_AUTH_DISABLED",
	"DELEGATION_TOKEN_NOT_FOUND",
	"DELEGATION_TOKEN_OWNER_MISMATCH",
	"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
	"DELEGATION_TOKEN_AUTHORIZATION_FAILED",
	"DELEGATION_TOKEN_EXPIRED",
	"INVALID_PRINCIPAL_TYPE",
	"NON_EMPTY_GROUP",
	"GROUP_ID_NOT_FOUND",
	"FETCH_SESSION_ID_NOT_FOUND",
	"INVALID_FETCH_SESSION_EPOCH",
	"LISTENER_NOT_FOUND",
	"TOPIC_DELETION_DISABLED",
	"FENCED_LEADER_EPOCH",
	"UNKNOWN_LEADER_EPOCH",
	"UNSUPPORTED_COMPRESSION_TYPE",
	"STALE_BROKER_EPOCH",
	"OFFSET_NOT_AVAILABLE",
	"MEMBER_ID_REQUIRED",
	"PREFERRED_LEADER_NOT_AVAILABLE",
	"GROUP_MAX_SIZE_REACHED",
	"FENCED_INSTANCE_ID",
	"ELIGIBLE_LEADERS_NOT_AVAILABLE",
	"ELECTION_NOT_NEEDED",
	"NO_REASSIGNMENT_IN_PROGRESS",
	"GROUP_SUBSCRIBED_TO_TOPIC",
	"INVALID_RECORD",
	"UNSTABLE_OFFSET_COMMIT",
	"THROTTLING_QUOTA_EXCEEDED",
	"PRODUCER_FENCED",
	"RESOURCE_NOT_FOUND",
	"DUPLICATE_RESOURCE",
	"UNACCEPTABLE_CREDENTIAL",
	"INCONSISTENT_VOTER_SET",
	"INVALID_UPDATE_VERSION",
	"FEATURE_UPDATE_FAILED",
	"PRINCIPAL_DESERIALIZATION_FAILURE",
	"SNAPSHOT_NOT_FOUND",
	"POSITION_OUT_OF_RANGE",
	"UNKNOWN_TOPIC_ID",
	"DUPLICATE_BROKER_REGISTRATION",
	"BROKER_ID_NOT_REGISTERED",
	"INCONSISTENT_TOPIC_ID",
	"INCONSISTENT_CLUSTER_ID",
	"TRANSACTIONAL_ID_NOT_FOUND",
	"FETCH_SESSION_TOPIC_ID_ERROR",
	"INELIGIBLE_REPLICA",
	"NEW_LEADER_ELECTED",
	"OFFSET_MOVED_TO_TIERED_STORAGE",
	"FENCED_MEMBER_EPOCH",
	"UNRELEASED_INSTANCE_ID",
	"UNSUPPORTED_ASSIGNOR",
	"STALE_MEMBER_EPOCH",
	"MISMATCHED_ENDPOINT_TYPE",
	"UNSUPPORTED_ENDPOINT_TYPE",
	"UNKNOWN_CONTROLLER_ID",
	"UNKNOWN_SUBSCRIPTION_ID",
	"TELEMETRY_TOO_LARGE",
	"INVALID_REGISTRATION",
	"TRANSACTION_ABORTABLE",
	"INVALID_RECORD_STATE",
	"SHARE_SESSION_NOT_FOUND",
	"INVALID_SHARE_SESSION_EPOCH",
	"FENCED_STATE_EPOCH",
	"INVALID_VOTER_KEY",
	"DUPLICATE_VOTER",
	"VOTER_NOT_FOUND",
	"INVALID_REGULAR_EXPRESSION",
	"REBOOTSTRAP_REQUIRED",
	"STREAMS_INVALID_TOPOLOGY",
	"STREAMS_INVALID_TOPOLOGY_EPOCH",
	"STREAMS_TOPOLOGY_FENCED",
	"SHARE_SESSION_LIMIT_REACHED",
}
