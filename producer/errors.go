package producer

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// Errors of a producer, for errors.Is. What a backend reports comes through with the partition
// added.
var (
	ErrClosed = errors.New("producer: closed")

	// ErrTimeout says that DeliveryTimeout has passed, or MaxBlock in a call that waits for memory
	// or metadata. If the record was sent (the error tells) it may be in the log; the last error of
	// the backend is wrapped too.
	ErrTimeout = errors.New("producer: timed out")

	// ErrMessageTooLarge says that a record is larger than MaxRequestBytes or MaxBufferedBytes, or
	// than the topic's max.message.bytes.
	ErrMessageTooLarge = errors.New("producer: record is too large")

	// ErrRefused says that the partitioner has no partition for the record.
	ErrRefused = errors.New("producer: partitioner refused the record")

	// ErrFenced says that someone else used this producer's id with a newer epoch, and it is
	// unknown whether the record is in the log. For a transactional producer it is the cause of an
	// ErrFatal: another producer has its TransactionalID, or the cluster has forgotten the id,
	// which it does a week after its last transaction.
	ErrFenced = errors.New("producer: fenced by a newer epoch")

	// ErrInvalidTimestamp says that a record's timestamp is before 1970 or out of the topic's
	// bounds.
	ErrInvalidTimestamp = record.ErrInvalidTimestamp
	// ErrInvalidRecord says that the topic does not take the record, for example one without key in
	// a compacted topic.
	ErrInvalidRecord = record.ErrInvalidRecord

	// ErrNotEnoughReplicas says that fewer replicas are in sync than min.insync.replicas asks for.
	// It is retried.
	ErrNotEnoughReplicas = partition.ErrNotEnoughReplicas
	// ErrOutOfOrderSequence is handled inside; it is seen only as the cause of a timeout.
	ErrOutOfOrderSequence = partition.ErrOutOfOrderSequence
	// ErrUnknownTopic says that there is no such topic or partition, also if it was deleted after
	// the record was accepted. As a rule it is a *replication.UnknownTopicError, which names the
	// nearest topic, or a *RecreatedError.
	ErrUnknownTopic = replication.ErrUnknownTopic
)

// A ConfigError says what is wrong with a Config.
type ConfigError struct {
	Key    string // field of Config, or Kafka's name in Properties
	Value  string
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("producer: %s = %q: %s", e.Key, e.Value, e.Reason)
}

// verdict is what an error of the backend means for a batch.
type verdict struct {
	retriable bool
	absent    bool // this attempt has certainly appended nothing
}

var verdicts = []struct {
	err error
	verdict
}{
	{partition.ErrNotLeader, verdict{true, true}},
	{partition.ErrNotLeaderAfterAppend, verdict{true, false}},
	{partition.ErrFencedLeaderEpoch, verdict{true, true}},
	{partition.ErrUnknownLeaderEpoch, verdict{true, true}},
	{partition.ErrNotEnoughReplicas, verdict{true, true}},
	{partition.ErrNotEnoughReplicasAfterAppend, verdict{true, false}},
	{partition.ErrTimeout, verdict{true, false}},
	{partition.ErrClosed, verdict{true, false}}, // the topic was deleted, or moved
	{replication.ErrUnknownTopic, verdict{true, true}},
	{replication.ErrClosed, verdict{false, true}},
	{partition.ErrOutOfOrderSequence, verdict{true, true}},
	{partition.ErrInvalidProducerEpoch, verdict{false, true}},
	{partition.ErrInvalidTxnState, verdict{false, true}},
	{partition.ErrTransactionalID, verdict{false, true}},
	{partition.ErrConcurrentTransactions, verdict{true, true}},
	{partition.ErrTxnAbortable, verdict{false, true}},
	{partition.ErrProducerIDMapping, verdict{false, true}},
	{partition.ErrRecordTooLarge, verdict{false, true}},
	{partition.ErrBatchTooLarge, verdict{false, true}},
	{partition.ErrInvalidAcks, verdict{false, true}},
	{partition.ErrInvalidRecord, verdict{false, true}},
	{partition.ErrInvalidTimestamp, verdict{false, true}},
	{partition.ErrUnsupportedCompression, verdict{false, true}},
	{partition.ErrCorrupt, verdict{true, false}}, // damaged on the way, or on the leader's disk
}

// classify looks err up. An unknown error is final, and the batch may have been appended.
func classify(err error) verdict {
	var v verdict
	for _, k := range verdicts {
		if errors.Is(err, k.err) {
			v = k.verdict
			break
		}
	}
	var r interface{ Retriable() bool }
	if errors.As(err, &r) {
		v.retriable = r.Retriable()
	}
	return v
}
