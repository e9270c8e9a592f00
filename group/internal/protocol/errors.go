package protocol

import (
	"errors"
	"fmt"
)

// Errors of the coordinator. The comments name Kafka's error codes.
var (
	ErrInvalidGroupID           = errors.New("group: invalid group id")                                                                                     // INVALID_GROUP_ID
	ErrInvalidSessionTimeout    = errors.New("group: session timeout out of range")                                                                         // INVALID_SESSION_TIMEOUT
	ErrUnknownMember            = errors.New("group: unknown member id")                                                                                    // UNKNOWN_MEMBER_ID: discard the id, join again
	ErrMemberIDRequired         = errors.New("group: join again with the member id given")                                                                  // MEMBER_ID_REQUIRED, see MemberIDRequiredError
	ErrFencedInstance           = errors.New("group: instance id is in use by a newer member")                                                              // FENCED_INSTANCE_ID: fatal
	ErrIllegalGeneration        = errors.New("group: illegal generation")                                                                                   // ILLEGAL_GENERATION: join again
	ErrRebalanceInProgress      = errors.New("group: rebalance in progress")                                                                                // REBALANCE_IN_PROGRESS: join again
	ErrInconsistentProtocol     = errors.New("group: no assignor in common with the other members")                                                         // INCONSISTENT_GROUP_PROTOCOL
	ErrGroupMaxSize             = errors.New("group: group is full")                                                                                        // GROUP_MAX_SIZE_REACHED
	ErrLoading                  = errors.New("group: coordinator is loading")                                                                               // COORDINATOR_LOAD_IN_PROGRESS: retry; only over a network
	ErrNonEmptyGroup            = errors.New("group: group has members")                                                                                    // NON_EMPTY_GROUP
	ErrGroupNotFound            = errors.New("group: no such group")                                                                                        // GROUP_ID_NOT_FOUND
	ErrGroupSubscribedToTopic   = errors.New("group: group is subscribed to the topic")                                                                     // GROUP_SUBSCRIBED_TO_TOPIC
	ErrOffsetMetadataTooLarge   = errors.New("group: offset metadata too large")                                                                            // OFFSET_METADATA_TOO_LARGE
	ErrOffsetsFull              = errors.New("group: no memory is left for further offsets")                                                                // INVALID_COMMIT_OFFSET_SIZE; TRANSACTION_ABORTABLE in a transaction, from version 4 on
	ErrUnknownTopicOrPartition  = errors.New("group: unknown topic or partition")                                                                           // UNKNOWN_TOPIC_OR_PARTITION
	ErrUnstableOffsetCommit     = errors.New("group: the offset's transaction has not ended")                                                               // UNSTABLE_OFFSET_COMMIT: retry
	ErrInvalidRequest           = errors.New("group: invalid request")                                                                                      // INVALID_REQUEST
	ErrFencedMemberEpoch        = errors.New("group: the member's epoch differs from the coordinator's: it must abandon all its partitions and join again") // FENCED_MEMBER_EPOCH
	ErrStaleMemberEpoch         = errors.New("group: the member's epoch is stale: it must send a heartbeat and retry")                                      // STALE_MEMBER_EPOCH
	ErrUnreleasedInstance       = errors.New("group: instance id is in use by another member")                                                              // UNRELEASED_INSTANCE_ID
	ErrUnsupportedAssignor      = errors.New("group: no such server-side assignor")                                                                         // UNSUPPORTED_ASSIGNOR
	ErrInvalidRegularExpression = errors.New("group: invalid regular expression")                                                                           // INVALID_REGULAR_EXPRESSION
	ErrUnsupportedVersion       = errors.New("group: members of the newer protocol need a newer version of the request")                                    // UNSUPPORTED_VERSION
	ErrInvalidTopology          = errors.New("group: invalid topology of a streams application")                                                            // STREAMS_INVALID_TOPOLOGY
	ErrInvalidOffset            = errors.New("group: offset below 0")                                                                                       // of a reset; commits are not checked, as in Kafka
)

// A MemberIDRequiredError contains the member id for the next join (KIP-394). It matches
// ErrMemberIDRequired.
type MemberIDRequiredError struct{ MemberID string }

func (e *MemberIDRequiredError) Error() string {
	return fmt.Sprintf("%v: %s", ErrMemberIDRequired, e.MemberID)
}

// Is reports whether target is ErrMemberIDRequired.
func (e *MemberIDRequiredError) Is(target error) bool { return target == ErrMemberIDRequired }

// An UpgradeError is returned when a classic group cannot accept a member of the newer protocol. It
// matches ErrGroupNotFound, since Kafka uses that error code.
type UpgradeError struct {
	Group  string
	Reason string // in Kafka's words
	Cause  error  // the problem; nil: Reason describes it
}

func (e *UpgradeError) Error() string {
	return fmt.Sprintf("Cannot upgrade classic group %s to consumer group because %s", e.Group, e.Reason)
}

// Is reports whether target is ErrGroupNotFound.
func (e *UpgradeError) Is(target error) bool { return target == ErrGroupNotFound }

// Unwrap returns the cause.
func (e *UpgradeError) Unwrap() error { return e.Cause }

// A MetadataTooLargeError contains the length of a commit's metadata. It matches
// ErrOffsetMetadataTooLarge.
type MetadataTooLargeError struct{ Length, Max int } // in UTF-16 units, as Kafka counts

func (e *MetadataTooLargeError) Error() string {
	return fmt.Sprintf("%v: %d characters, at most %d", ErrOffsetMetadataTooLarge, e.Length, e.Max)
}

// Is reports whether target is ErrOffsetMetadataTooLarge.
func (e *MetadataTooLargeError) Is(target error) bool { return target == ErrOffsetMetadataTooLarge }
