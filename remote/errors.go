package remote

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote/internal/link"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// Errors of a cluster that is reached over a network, for errors.Is. All other errors are those of
// the packages whose calls return them, for example replication.ErrUnknownTopic.
var (
	// ErrNotAuthorized is returned when the user lacks a right. It is final.
	ErrNotAuthorized = errors.New("remote: not authorized")
	// ErrNotAuthenticated is returned when a broker does not accept the login, or has no login of
	// that kind. It is final.
	ErrNotAuthenticated = errors.New("remote: not authenticated")
	// ErrTLS is returned when the certificates do not match, or a broker responds with an alert of
	// TLS. It is final. If only one side uses TLS, or the broker requires a login, the connection
	// usually just ends: then the text of an ErrUnreachable names that as the likely cause.
	ErrTLS = errors.New("remote: TLS handshake failed")
	// ErrNotKafka is returned when a server's response is none of Kafka's protocol. It is final. A
	// server that does not respond at all is unreachable.
	ErrNotKafka = errors.New("remote: not a Kafka broker")
	// ErrUnsupported is returned when the brokers are too old for a call. It is final. See
	// Cluster.Supports.
	ErrUnsupported = errors.New("remote: not supported by the cluster")
	// ErrUnreachable is returned when there was no response: a connection could not be made, or was
	// cut, or the broker did not respond in time. A change may have been made. Calls may be
	// repeated.
	ErrUnreachable = errors.New("remote: no response")
)

// A CodeError is an error code in a broker's response. Unwrap returns the error of the packages
// with this meaning, if there is one.
type CodeError struct {
	Code    int16  // Kafka's error code
	Name    string // of the code, for example NOT_CONTROLLER
	Message string // the broker's text; may be empty
	err     error
}

func (e *CodeError) Error() string {
	text := e.Name
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.err != nil {
		return fmt.Sprintf("%v (%s)", e.err, text)
	}
	return "remote: " + text
}

// Unwrap returns the error with the same meaning in the packages of this module; nil: none.
func (e *CodeError) Unwrap() error { return e.err }

// An outcome is an error that states whether a repeated call can succeed. Producers and consumers
// use that instead of their own lists.
type outcome struct {
	error
	retriable bool
}

func (o outcome) Unwrap() error   { return o.error }
func (o outcome) Retriable() bool { return o.retriable }

func passing(err error) error { return outcome{err, true} }
func final(err error) error   { return outcome{err, false} }

// A source is the kind of request that a code responds to. Some codes have several meanings.
type source uint8

const (
	fromPartition   source = iota // fetch, list offsets
	fromProduce                   // a batch sent to a partition
	fromGroup                     // the coordinator of a group
	fromTransaction               // the coordinator of a transactional id
	fromAdmin
)

// A codeRow is the meaning of an error code. The first row that fits counts.
type codeRow struct {
	code *kerr.Error
	err  error
	only []source // nil: of all requests
}

// codeRows is the reverse of the table of package kafka.
var codeRows = []codeRow{
	{kerr.UnknownTopicOrPartition, group.ErrUnknownTopicOrPartition, []source{fromGroup}},
	{kerr.UnknownTopicOrPartition, replication.ErrUnknownTopic, nil},
	{kerr.UnknownTopicID, replication.ErrUnknownTopic, []source{fromProduce}},
	{kerr.UnknownTopicID, partition.ErrInconsistentTopicID, nil},
	{kerr.InconsistentTopicID, partition.ErrInconsistentTopicID, nil},
	{kerr.NotLeaderForPartition, partition.ErrNotLeaderAfterAppend, []source{fromProduce}},
	{kerr.KafkaStorageError, partition.ErrNotLeaderAfterAppend, []source{fromProduce}},
	{kerr.NotLeaderForPartition, partition.ErrNotLeader, nil},
	{kerr.LeaderNotAvailable, partition.ErrNotLeader, nil},
	{kerr.ReplicaNotAvailable, partition.ErrNotLeader, nil},
	{kerr.KafkaStorageError, partition.ErrNotLeader, []source{fromPartition}},
	{kerr.FencedLeaderEpoch, partition.ErrFencedLeaderEpoch, nil},
	{kerr.UnknownLeaderEpoch, partition.ErrUnknownLeaderEpoch, nil},
	{kerr.OffsetNotAvailable, partition.ErrOffsetNotAvailable, nil},
	{kerr.OffsetOutOfRange, partition.ErrOffsetOutOfRange, nil},
	{kerr.NotEnoughReplicas, partition.ErrNotEnoughReplicas, nil},
	{kerr.NotEnoughReplicasAfterAppend, partition.ErrNotEnoughReplicasAfterAppend, nil},
	{kerr.RequestTimedOut, partition.ErrTimeout, []source{fromProduce, fromPartition}},
	{kerr.OutOfOrderSequenceNumber, partition.ErrOutOfOrderSequence, nil},
	{kerr.UnknownProducerID, partition.ErrOutOfOrderSequence, []source{fromProduce}},
	{kerr.InvalidProducerEpoch, partition.ErrInvalidProducerEpoch, []source{fromProduce}},
	{kerr.ProducerFenced, partition.ErrInvalidProducerEpoch, []source{fromProduce}},
	{kerr.InvalidProducerEpoch, transaction.ErrProducerFenced, nil},
	{kerr.ProducerFenced, transaction.ErrProducerFenced, nil},
	{kerr.InvalidTxnState, partition.ErrInvalidTxnState, []source{fromProduce}},
	{kerr.InvalidTxnState, transaction.ErrInvalidState, nil},
	{kerr.ConcurrentTransactions, partition.ErrConcurrentTransactions, []source{fromProduce}},
	{kerr.ConcurrentTransactions, transaction.ErrConcurrent, nil},
	{kerr.TransactionAbortable, partition.ErrTxnAbortable, []source{fromProduce}},
	{kerr.TransactionAbortable, transaction.ErrAbortable, nil},
	{kerr.InvalidProducerIDMapping, partition.ErrProducerIDMapping, []source{fromProduce}},
	{kerr.InvalidProducerIDMapping, transaction.ErrInvalidProducerMapping, nil},
	{kerr.InvalidTransactionTimeout, transaction.ErrInvalidTimeout, nil},
	{kerr.TransactionalIDNotFound, transaction.ErrNotFound, nil},
	{kerr.MessageTooLarge, partition.ErrRecordTooLarge, nil},
	{kerr.RecordListTooLarge, partition.ErrBatchTooLarge, nil},
	{kerr.InvalidTimestamp, partition.ErrInvalidTimestamp, nil},
	{kerr.InvalidRecord, record.ErrInvalidRecord, nil},
	{kerr.InvalidRequiredAcks, partition.ErrInvalidAcks, nil},
	{kerr.UnsupportedCompressionType, partition.ErrUnsupportedCompression, nil},
	{kerr.CorruptMessage, partition.ErrCorrupt, nil},
	{kerr.CoordinatorNotAvailable, transaction.ErrCoordinatorNotAvailable, []source{fromTransaction}},
	{kerr.CoordinatorLoadInProgress, transaction.ErrCoordinatorNotAvailable, []source{fromTransaction}},
	{kerr.NotCoordinator, transaction.ErrNotCoordinator, []source{fromTransaction}},
	{kerr.RequestTimedOut, transaction.ErrCoordinatorNotAvailable, []source{fromTransaction}},
	{kerr.CoordinatorNotAvailable, group.ErrCoordinatorNotAvailable, nil},
	{kerr.CoordinatorLoadInProgress, group.ErrCoordinatorNotAvailable, nil},
	{kerr.NotCoordinator, group.ErrNotCoordinator, nil},
	{kerr.RequestTimedOut, group.ErrCoordinatorNotAvailable, []source{fromGroup}},
	{kerr.InvalidGroupID, group.ErrInvalidGroupID, nil},
	{kerr.InvalidSessionTimeout, group.ErrInvalidSessionTimeout, nil},
	{kerr.UnknownMemberID, group.ErrUnknownMember, nil},
	{kerr.MemberIDRequired, group.ErrMemberIDRequired, nil},
	{kerr.FencedInstanceID, group.ErrFencedInstance, nil},
	{kerr.IllegalGeneration, group.ErrIllegalGeneration, nil},
	{kerr.RebalanceInProgress, group.ErrRebalanceInProgress, nil},
	{kerr.InconsistentGroupProtocol, group.ErrInconsistentProtocol, nil},
	{kerr.GroupMaxSizeReached, group.ErrGroupMaxSize, nil},
	{kerr.NonEmptyGroup, group.ErrNonEmptyGroup, nil},
	{kerr.GroupIDNotFound, group.ErrGroupNotFound, nil},
	{kerr.GroupSubscribedToTopic, group.ErrGroupSubscribedToTopic, nil},
	{kerr.OffsetMetadataTooLarge, group.ErrOffsetMetadataTooLarge, nil},
	{kerr.InvalidCommitOffsetSize, group.ErrOffsetsFull, nil},
	{kerr.UnstableOffsetCommit, group.ErrUnstableOffsetCommit, nil},
	{kerr.InvalidRequest, group.ErrInvalidRequest, []source{fromGroup}},
	{kerr.InvalidRequest, transaction.ErrInvalidID, []source{fromTransaction}},
	{kerr.FencedMemberEpoch, group.ErrFencedMemberEpoch, nil},
	{kerr.StaleMemberEpoch, group.ErrStaleMemberEpoch, nil},
	{kerr.UnreleasedInstanceID, group.ErrUnreleasedInstance, nil},
	{kerr.UnsupportedAssignor, group.ErrUnsupportedAssignor, nil},
	{kerr.InvalidRegularExpression, group.ErrInvalidRegularExpression, nil},
	{kerr.InvalidRecordState, share.ErrInvalidRecordState, nil},
	{kerr.FencedStateEpoch, share.ErrFencedStateEpoch, nil},
	{kerr.TopicAlreadyExists, replication.ErrTopicExists, nil},
	{kerr.InvalidTopicException, topic.ErrInvalidName, nil},
	{kerr.InvalidPartitions, replication.ErrInvalidPartitions, nil},
	{kerr.InvalidReplicationFactor, replication.ErrInvalidReplicationFactor, nil},
	{kerr.InvalidReplicaAssignment, replication.ErrInvalidAssignment, nil},
	{kerr.PolicyViolation, replication.ErrPolicyViolation, nil},
}

// notAuthorized are the codes for a missing right.
var notAuthorized = []*kerr.Error{
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
	kerr.DelegationTokenAuthorizationFailed,
}

// codeError returns the error for a code in a response; nil for 0. Codes without an error in the
// packages of this module state whether the call may be repeated, as in Kafka.
func codeError(from source, code int16, message *string) error {
	if code == 0 {
		return nil
	}
	known := kerr.TypedErrorForCode(code)
	e := &CodeError{Code: code, Name: known.Message}
	if message != nil {
		e.Message = *message
	}
	is := func(k *kerr.Error) bool { return k.Code == code }
	switch {
	case slices.ContainsFunc(notAuthorized, is):
		e.err = ErrNotAuthorized
		return final(e)
	case code == kerr.SaslAuthenticationFailed.Code, code == kerr.UnsupportedSaslMechanism.Code, code == kerr.IllegalSaslState.Code:
		e.err = ErrNotAuthenticated
		return final(e)
	case code == kerr.UnsupportedVersion.Code:
		e.err = ErrUnsupported
		return final(e)
	}
	for _, row := range codeRows {
		if is(row.code) && (row.only == nil || slices.Contains(row.only, from)) {
			e.err = row.err
			return e
		}
	}
	return outcome{e, known.Retriable}
}

// linkError returns the error for a request without a response. op names the request.
func linkError(op string, from source, err error) error {
	wrap := func(kind error) error { return fmt.Errorf("%w: %s: %w", kind, op, err) }
	switch link.CauseOf(err) {
	case link.Closed:
		return replication.ErrClosed
	case link.CodedByBroker:
		code, message := link.CodeOf(err)
		return fmt.Errorf("%s: %w", op, codeError(from, code, message))
	case link.Untrusted:
		return final(wrap(ErrTLS))
	case link.NotKafka:
		return final(wrap(ErrNotKafka))
	case link.Unsupported:
		return final(wrap(ErrUnsupported))
	}
	return passing(wrap(ErrUnreachable))
}
