package partition

import (
	"errors"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// Errors of a partition. Match them with errors.Is; the returned errors add the partition and the
// numbers. A client may retry the same request after: ErrNotEnoughReplicas,
// ErrNotEnoughReplicasAfterAppend, ErrNotLeader, ErrNotLeaderAfterAppend, ErrTimeout,
// ErrUnknownLeaderEpoch, ErrConcurrentTransactions.
var (
	ErrClosed = errors.New("partition: closed")

	// Producer state.
	// ErrOutOfOrderSequence: a gap, or a retry older than the producer's last five batches.
	ErrOutOfOrderSequence = errors.New("partition: out of order sequence number")
	// ErrInvalidProducerEpoch: the batch has an older epoch of its producer id.
	ErrInvalidProducerEpoch = errors.New("partition: producer epoch is fenced")
	// ErrInvalidTxnState: the transaction of the write is not open any more, or the write is
	// outside of the open transaction.
	ErrInvalidTxnState = errors.New("partition: not allowed in this transaction state")
	// ErrConcurrentTransactions: the producer's previous transaction is still being completed.
	// Nothing was appended. Retriable.
	ErrConcurrentTransactions = errors.New("partition: the previous transaction is still being completed")
	// ErrTxnAbortable: the partition is not in the transaction, which can only be aborted.
	ErrTxnAbortable = errors.New("partition: not in the transaction, which has to be aborted")
	// ErrProducerIDMapping: the transactional id is unknown, or has another producer id.
	ErrProducerIDMapping = errors.New("partition: not the producer id of the transactional id")
	ErrCoordinatorFenced = errors.New("partition: transaction coordinator epoch is fenced")
	ErrTransactionalID   = errors.New("partition: transactional batch without a transactional id")

	// Leadership and replication.
	ErrLeader = errors.New("partition: not allowed on a leader")
	// ErrNotLeader: this replica does not lead. Nothing was appended.
	ErrNotLeader = errors.New("partition: not the leader")
	// ErrNotLeaderAfterAppend: this replica lost the leadership, or its broker ended, during the
	// append. The records may be kept or lost. A producer that treats it as ErrNotLeader reuses
	// their sequence numbers for other records, and these are lost. Kafka has one code for both
	// errors, and Kafka's idempotent producers treat it as ErrNotLeaderAfterAppend.
	ErrNotLeaderAfterAppend = errors.New("partition: not the leader any more after the append")
	// ErrFencedLeaderEpoch: the request's epoch is older than the partition's.
	ErrFencedLeaderEpoch = errors.New("partition: leader epoch is fenced")
	// ErrUnknownLeaderEpoch: the request's epoch is newer than the partition's.
	ErrUnknownLeaderEpoch = errors.New("partition: leader epoch is not known yet")
	// ErrOffsetNotAvailable: a new leader has not received the high watermark of its predecessor
	// yet. Retriable.
	ErrOffsetNotAvailable = errors.New("partition: the high watermark is not known yet")
	// ErrNotEnoughReplicas: nothing was appended.
	ErrNotEnoughReplicas = errors.New("partition: fewer in-sync replicas than min.insync.replicas")
	// ErrNotEnoughReplicasAfterAppend: the records may be kept.
	ErrNotEnoughReplicasAfterAppend = errors.New("partition: too few in-sync replicas after the append")
	// ErrTimeout: there was no answer in time. The records of an append may be kept.
	ErrTimeout = errors.New("partition: timed out")

	// The batch of a produce request.
	ErrBatchTooLarge = errors.New("partition: batch is larger than a segment")
	ErrInvalidAcks   = errors.New("partition: invalid acks")

	// ErrInconsistentTopicID is returned if a directory, or the position of a reader, belongs to
	// another topic of the same name.
	ErrInconsistentTopicID = errors.New("partition: belongs to a topic of that name with another id")

	// ErrTruncated is returned to a reader whose log was truncated below its offset, by an unclean
	// election. A *TruncatedError in the chain has the offset where the logs diverge.
	ErrTruncated = errors.New("partition: the log was truncated below the offset")

	// ErrPolicyViolation rejects DeleteRecords on a topic that is only compacted.
	ErrPolicyViolation = errors.New("partition: policy violation")
)

// Errors of lower packages, under the names that callers of this package use.
var (
	ErrRecordTooLarge         = record.ErrBatchTooLarge // larger than max.message.bytes
	ErrInvalidRecord          = record.ErrInvalidRecord
	ErrInvalidTimestamp       = record.ErrInvalidTimestamp
	ErrUnsupportedCompression = record.ErrUnsupportedCodec
	ErrCorrupt                = record.ErrCorrupt // damaged bytes, of a request or on disk
	ErrOffsetOutOfRange       = log.ErrOffsetOutOfRange
)
