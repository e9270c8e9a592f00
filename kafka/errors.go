package kafka

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/clientmetrics"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// A protocolError is an error in the request itself, found before any layer below is called.
type protocolError struct {
	code Code
	text string
}

func (e *protocolError) Error() string { return e.text }

func refuse(code Code, text string) error { return &protocolError{code, text} }

type errorRow struct {
	err  error
	code Code
}

// errorCodes maps the errors of lower layers to the error codes of the protocol. The first
// matching row counts.
var errorCodes = []errorRow{
	// First: an error of a partition of the offsets topic wraps the partition's own error.
	{group.ErrCoordinatorNotAvailable, CoordinatorNotAvailable},
	{group.ErrNotCoordinator, NotCoordinator},
	{partition.ErrOutOfOrderSequence, OutOfOrderSequenceNumber},
	{partition.ErrInvalidProducerEpoch, InvalidProducerEpoch},
	{partition.ErrInvalidTxnState, InvalidTxnState},
	{partition.ErrCoordinatorFenced, TransactionCoordinatorFenced},
	{partition.ErrTransactionalID, TransactionalIDAuthorizationFailed},
	{partition.ErrConcurrentTransactions, ConcurrentTransactions},
	{partition.ErrTxnAbortable, TransactionAbortable},
	{partition.ErrProducerIDMapping, InvalidProducerIDMapping},
	{replication.ErrUnacceptableCredential, UnacceptableCredential},
	{replication.ErrUnsupportedMechanism, UnsupportedSASLMechanism},
	{replication.ErrDuplicateResource, DuplicateResource},
	{replication.ErrResourceNotFound, ResourceNotFound},
	{replication.ErrInvalidQuota, InvalidRequest},
	{replication.ErrDelegationTokenNotFound, DelegationTokenNotFound},
	{partition.ErrNotLeader, NotLeaderOrFollower},
	{partition.ErrNotLeaderAfterAppend, NotLeaderOrFollower},
	{partition.ErrFencedLeaderEpoch, FencedLeaderEpoch},
	{partition.ErrUnknownLeaderEpoch, UnknownLeaderEpoch},
	{partition.ErrOffsetNotAvailable, OffsetNotAvailable},
	{partition.ErrNotEnoughReplicas, NotEnoughReplicas},
	{partition.ErrNotEnoughReplicasAfterAppend, NotEnoughReplicasAfterAppend},
	{partition.ErrTimeout, RequestTimedOut},
	{partition.ErrBatchTooLarge, RecordListTooLarge},
	{partition.ErrInvalidAcks, InvalidRequiredAcks},
	{partition.ErrInconsistentTopicID, InconsistentTopicID},
	{partition.ErrPolicyViolation, PolicyViolation},
	{partition.ErrRecordTooLarge, MessageTooLarge},
	{log.ErrRecordTooLarge, MessageTooLarge},
	{partition.ErrInvalidTimestamp, InvalidTimestamp},
	{partition.ErrOffsetOutOfRange, OffsetOutOfRange},
	{replication.ErrUnknownTopic, UnknownTopicOrPartition},
	{replication.ErrRecordsMissing, KafkaStorageError},
	{replication.ErrTopicExists, TopicAlreadyExists},
	{replication.ErrInvalidPartitions, InvalidPartitions},
	{replication.ErrInvalidReplicationFactor, InvalidReplicationFactor},
	{replication.ErrInvalidAssignment, InvalidReplicaAssignment},
	{replication.ErrUnknownBroker, InvalidRequest},
	// Kafka's code when the quorum of controllers has no majority: the change may have happened,
	// and the client retries.
	{replication.ErrMetadataReadOnly, RequestTimedOut},
	{topic.ErrInvalidName, InvalidTopicException},
	{acl.ErrInvalid, InvalidRequest},
	{group.ErrInvalidGroupID, InvalidGroupID},
	{group.ErrInvalidSessionTimeout, InvalidSessionTimeout},
	{group.ErrUnknownMember, UnknownMemberID},
	{group.ErrMemberIDRequired, MemberIDRequired},
	{group.ErrFencedInstance, FencedInstanceID},
	{group.ErrIllegalGeneration, IllegalGeneration},
	{group.ErrRebalanceInProgress, RebalanceInProgress},
	{group.ErrInconsistentProtocol, InconsistentGroupProtocol},
	{group.ErrGroupMaxSize, GroupMaxSizeReached},
	{group.ErrLoading, CoordinatorLoadInProgress},
	{group.ErrNonEmptyGroup, NonEmptyGroup},
	{group.ErrGroupNotFound, GroupIDNotFound},
	{group.ErrGroupSubscribedToTopic, GroupSubscribedToTopic},
	{group.ErrOffsetMetadataTooLarge, OffsetMetadataTooLarge},
	{group.ErrOffsetsFull, InvalidCommitOffsetSize},
	{group.ErrUnknownTopicOrPartition, UnknownTopicOrPartition},
	{group.ErrClosed, CoordinatorNotAvailable},
	{group.ErrUnstableOffsetCommit, UnstableOffsetCommit},
	{group.ErrInvalidRequest, InvalidRequest},
	{group.ErrFencedMemberEpoch, FencedMemberEpoch},
	{group.ErrStaleMemberEpoch, StaleMemberEpoch},
	{group.ErrUnreleasedInstance, UnreleasedInstanceID},
	{group.ErrUnsupportedAssignor, UnsupportedAssignor},
	{group.ErrInvalidRegularExpression, InvalidRegularExpression},
	{group.ErrUnsupportedVersion, UnsupportedVersion},
	{group.ErrInvalidTopology, StreamsInvalidTopology},
	{share.ErrInvalidRequest, InvalidRequest},
	{share.ErrInvalidRecordState, InvalidRecordState},
	{share.ErrFencedLeaderEpoch, FencedLeaderEpoch},
	{share.ErrFencedStateEpoch, FencedStateEpoch},
	{share.ErrNotInitialized, InvalidRequest},
	{share.ErrFull, PolicyViolation},
	{sharelog.ErrMalformed, InvalidRequest},
	{transaction.ErrInvalidID, InvalidRequest},
	{transaction.ErrNotFound, TransactionalIDNotFound},
	{transaction.ErrInvalidTimeout, InvalidTransactionTimeout},
	{transaction.ErrInvalidProducerMapping, InvalidProducerIDMapping},
	{transaction.ErrProducerFenced, ProducerFenced},
	{transaction.ErrConcurrent, ConcurrentTransactions},
	{transaction.ErrInvalidState, InvalidTxnState},
	{transaction.ErrAbortable, TransactionAbortable},
	{transaction.ErrFull, PolicyViolation},
	{clientmetrics.ErrThrottled, ThrottlingQuotaExceeded},
	{clientmetrics.ErrTerminated, InvalidRequest},
	{clientmetrics.ErrUnknownSubscription, UnknownSubscriptionID},
	{clientmetrics.ErrUnsupportedCompression, UnsupportedCompressionType},
	{clientmetrics.ErrTooLarge, TelemetryTooLarge},
	{record.ErrUnsupportedCodec, UnsupportedCompressionType},
	{record.ErrTooLarge, MessageTooLarge},
	{record.ErrInvalidRecord, InvalidRecord},
	{partition.ErrClosed, NotLeaderOrFollower}, // the topic was deleted, or the broker is closing
	{replication.ErrClosed, NotLeaderOrFollower},
	{context.DeadlineExceeded, RequestTimedOut},
	{context.Canceled, RequestTimedOut},
}

// errorCode returns the code for an error of any layer, 0 for nil. It logs errors of files and
// unexpected errors for operators. It does not log a *protocolError, whatever its code.
func (c *call) errorCode(err error) int16 {
	code := codeOf(err)
	if refused := (*protocolError)(nil); (code == UnknownServerError || code == KafkaStorageError) && !errors.As(err, &refused) {
		if dropped, ok := c.s.failures.next(); ok {
			c.s.log.Error("request failed", slog.Any("error", err), slog.String("client", c.clientID), slog.String("code", code.String()), slog.Int("lines left out", dropped))
		}
	}
	return int16(code)
}

// codeOf looks an error up; most callers want call.errorCode.
func codeOf(err error) Code {
	if err == nil {
		return 0
	}
	var p *protocolError
	if errors.As(err, &p) {
		return p.code
	}
	for _, row := range errorCodes {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	var damaged *log.CorruptError
	var file *fs.PathError
	var config *topic.ConfigError
	switch {
	case errors.As(err, &file): // the disk is full or failing
		return KafkaStorageError
	case errors.As(err, &config):
		return InvalidConfig
	case errors.As(err, &damaged), errors.Is(err, log.ErrReadOnly), errors.Is(err, log.ErrClosed), errors.Is(err, log.ErrMissingSegment):
		return KafkaStorageError
	case errors.Is(err, partition.ErrCorrupt), errors.Is(err, record.ErrShort):
		return CorruptMessage
	}
	return UnknownServerError
}

// errorMessage returns the message for a client; nil if Kafka has none. If err wraps a sentinel of
// errorCodes, Kafka's message is the text after the sentinel's text.
func errorMessage(err error) *string {
	if err == nil || errors.Is(err, errMutationQuota) {
		return nil
	}
	text := err.Error()
	if p := (*protocolError)(nil); errors.As(err, &p) {
		text = p.text
	} else if codeOf(err) == UnknownTopicOrPartition {
		text = textUnknownTopic
	} else if errors.Is(err, group.ErrInvalidGroupID) {
		text = "The group id is invalid."
	} else if errors.Is(err, group.ErrNonEmptyGroup) {
		text = "The group is not empty."
	} else if i := slices.IndexFunc(errorCodes, func(row errorRow) bool { return errors.Is(err, row.err) }); i >= 0 {
		text = strings.TrimPrefix(text, errorCodes[i].err.Error()+": ")
	}
	if text == "" {
		return nil
	}
	return &text
}

// Kafka's default messages of codes (Errors).
const (
	textInvalidRequest = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."
	textUnknownTopic   = "This server does not host this topic-partition."
)

// noText returns an error with a code for which Kafka has no message.
func noText(code Code) error { return refuse(code, "") }

// nameSays returns Kafka's message for an invalid topic name. Kafka: Topic.validate.
func nameSays(err error, name string) error {
	if !errors.Is(err, topic.ErrInvalidName) {
		return err
	}
	text := "Topic name is invalid: "
	switch {
	case name == "":
		text += "the empty string is not allowed"
	case name == "." || name == "..":
		text += fmt.Sprintf("'%s' is not allowed", name)
	case len(name) > topic.MaxNameLength:
		text += fmt.Sprintf("the length of '%s' is longer than the max allowed length %d", name, topic.MaxNameLength)
	default:
		text += fmt.Sprintf("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	}
	return refuse(InvalidTopicException, text)
}

// notFound returns Kafka's message for a group that does not exist or has another type.
func (c *call) notFound(id, kind string) *string {
	text := fmt.Sprintf("Group %s not found.", id)
	if _, err := c.groups.Describe(c.ctx, id); err == nil {
		text = fmt.Sprintf("Group %s is not a %s group.", id, kind)
	}
	return &text
}

// heartbeatSays adds Kafka's message to the error of a rejected heartbeat. kind is the type of the
// group, for example Consumer or Share. Errors about the coordinator have no message. Kafka:
// GroupMetadataManager.getOrMaybeCreateConsumerGroup, consumerGroup, throwIfStaticMemberIsUnknown.
func (c *call) heartbeatSays(err error, kind, id, member string, instance *string, epoch int32) error {
	switch {
	case errors.Is(err, group.ErrNotCoordinator), errors.Is(err, group.ErrCoordinatorNotAvailable), errors.Is(err, group.ErrLoading):
		return noText(codeOf(err))
	case errors.Is(err, group.ErrGroupNotFound) && !errors.As(err, new(*group.UpgradeError)):
		text := *c.notFound(id, strings.ToLower(kind))
		if _, other := c.groups.Describe(c.ctx, id); other != nil && epoch > 0 {
			text = fmt.Sprintf("%s group %s not found.", kind, id)
		}
		return refuse(GroupIDNotFound, text)
	case errors.Is(err, group.ErrUnknownMember) && instance != nil:
		return refuse(UnknownMemberID, fmt.Sprintf("Instance id %s is unknown.", *instance))
	case errors.Is(err, group.ErrUnknownMember):
		return refuse(UnknownMemberID, fmt.Sprintf("Member %s is not a member of group %s.", member, id))
	}
	return groupSays(err, id)
}

// groupSays adds Kafka's message for a group that does not exist. The error of a rejected upgrade
// already has its message.
func groupSays(err error, id string) error {
	if no := (*group.UpgradeError)(nil); errors.As(err, &no) {
		return err
	}
	return says(err, group.ErrGroupNotFound, fmt.Sprintf("Group %s not found.", id))
}

// says returns an error with Kafka's message text and the code of target if err matches target.
// Otherwise it returns err.
func says(err, target error, text string) error {
	if !errors.Is(err, target) {
		return err
	}
	return refuse(codeOf(target), text)
}
