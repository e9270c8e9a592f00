package producer

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// Errors of a producer, for errors.Is. Errors of a backend are returned with the partition added.
var (
	ErrClosed = errors.New("producer: closed")

	// ErrTimeout is returned when DeliveryTimeout has passed, or MaxBlock in a call that waits for
	// memory or metadata. The error's text states whether the record was sent; if so, it may be in
	// the log. The last error of the backend is wrapped, too, if there was one since its last
	// success: of the partition's batches, the metadata, or a producer id.
	ErrTimeout = errors.New("producer: timed out")

	// ErrMessageTooLarge is returned for a record larger than MaxRequestBytes or MaxBufferedBytes,
	// or than the topic's max.message.bytes.
	ErrMessageTooLarge = errors.New("producer: record is too large")

	// ErrRefused is returned when the partitioner returned no valid partition for the record.
	ErrRefused = errors.New("producer: partitioner refused the record")

	// ErrFenced is returned when another producer used this producer's id with a newer epoch. It is
	// unknown whether the record is in the log. For a transactional producer it is the cause of an
	// ErrFatal: another producer has its TransactionalID. If only the id has expired, a week after
	// its last transaction, the transaction has to be aborted (ErrAbortable).
	ErrFenced = errors.New("producer: fenced by a newer epoch")

	// ErrInvalidTimestamp is returned for a timestamp outside the topic's bounds, or before 1970
	// without Config.NegativeTimestamps.
	ErrInvalidTimestamp = record.ErrInvalidTimestamp
	// ErrInvalidRecord is returned for a record that the topic does not accept, for example one
	// without a key in a compacted topic.
	ErrInvalidRecord = record.ErrInvalidRecord

	// ErrNotEnoughReplicas is returned when fewer replicas are in sync than min.insync.replicas. It
	// is retried.
	ErrNotEnoughReplicas = partition.ErrNotEnoughReplicas
	// ErrOutOfOrderSequence is handled internally; it is visible only as the cause of a timeout.
	ErrOutOfOrderSequence = partition.ErrOutOfOrderSequence
	// ErrUnknownTopic is returned for a topic or partition that does not exist, including one
	// deleted after the record was accepted. It is usually a *replication.UnknownTopicError, which
	// names the most similar topic, or a *RecreatedError.
	ErrUnknownTopic = replication.ErrUnknownTopic
)

// A ConfigError describes one bad setting of a Config.
type ConfigError struct {
	Key    string // field of Config, or Kafka's name in Properties
	Value  string
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("producer: %s = %q: %s", e.Key, e.Value, e.Reason)
}

// verdict is the effect of a backend's error on a batch.
type verdict struct {
	retriable bool
	absent    bool // this attempt has certainly not appended the batch
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
	{partition.ErrCorrupt, verdict{true, false}}, // damaged in transit, or on the leader's disk
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
	if retriable, decided := retriable.Of(err); decided {
		v.retriable = retriable
	}
	return v
}
