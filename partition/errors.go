package partition

import (
	"errors"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// Errors of a partition. All are matched with errors.Is; the returned errors add which partition
// and which numbers. Retriable by the same request: ErrNotEnoughReplicas,
// ErrNotEnoughReplicasAfterAppend, ErrNotLeader, ErrNotLeaderAfterAppend, ErrTimeout,
// ErrUnknownLeaderEpoch, ErrConcurrentTransactions.
var (
	ErrClosed = errors.New("partition: closed")

	// Producer state.
	// ErrOutOfOrderSequence: a gap, or a retry older than the producer's last five batches.
	ErrOutOfOrderSequence = errors.New("partition: out of order sequence number")
	// ErrInvalidProducerEpoch: the batch has an older epoch of its producer id.
	ErrInvalidProducerEpoch = errors.New("partition: producer epoch is fenced")
	// ErrInvalidTxnState: a write of a transaction that is not open any more, or outside of the one
	// that is.
	ErrInvalidTxnState = errors.New("partition: not allowed in this transaction state")
	// ErrConcurrentTransactions: the producer's transaction before is still being ended. Nothing
	// was appended. Retriable.
	ErrConcurrentTransactions = errors.New("partition: the transaction before is still being ended")
	// ErrTxnAbortable: the partition is not in the transaction, which can only be aborted.
	ErrTxnAbortable = errors.New("partition: not in the transaction, which is to be aborted")
	// ErrProducerIDMapping: the transactional id is not known, or has another producer id.
	ErrProducerIDMapping = errors.New("partition: not the producer id of the transactional id")
	ErrCoordinatorFenced = errors.New("partition: transaction coordinator epoch is fenced")
	ErrTransactionalID   = errors.New("partition: transactional batch without a transactional id")

	// Leadership and replication.
	ErrLeader = errors.New("partition: not allowed on a leader")
	// ErrNotLeader: this replica does not lead. Nothing was appended.
	ErrNotLeader = errors.New("partition: not the leader")
	// ErrNotLeaderAfterAppend: this replica lost the leadership, or its broker ended, while the
	// append was under way. The records may stay or be lost: whoever takes this for ErrNotLeader
	// gives their sequence numbers to others, and loses those. Kafka has one code for both, and its
	// idempotent producers take it for this one.
	ErrNotLeaderAfterAppend = errors.New("partition: not the leader any more after the append")
	// ErrFencedLeaderEpoch: the request's epoch is older than the partition's.
	ErrFencedLeaderEpoch = errors.New("partition: leader epoch is fenced")
	// ErrUnknownLeaderEpoch: the request's epoch is newer than the partition's.
	ErrUnknownLeaderEpoch = errors.New("partition: leader epoch is not known yet")
	// ErrOffsetNotAvailable: a new leader does not know yet how far its predecessor has
	// acknowledged records. Retriable.
	ErrOffsetNotAvailable = errors.New("partition: the high watermark is not known yet")
	// ErrNotEnoughReplicas: nothing was appended.
	ErrNotEnoughReplicas = errors.New("partition: fewer in-sync replicas than min.insync.replicas")
	// ErrNotEnoughReplicasAfterAppend: the records may stay.
	ErrNotEnoughReplicasAfterAppend = errors.New("partition: too few in-sync replicas after the append")
	// ErrTimeout: the records may stay.
	ErrTimeout = errors.New("partition: timed out waiting for the acknowledgement")

	// The batch of a produce request.
	ErrBatchTooLarge = errors.New("partition: batch is larger than a segment")
	ErrInvalidAcks   = errors.New("partition: invalid acks")

	// ErrInconsistentTopicID says that a directory, or the position of a reader, belongs to another
	// topic of the same name.
	ErrInconsistentTopicID = errors.New("partition: belongs to a topic of that name with another id")

	// ErrPolicyViolation refuses DeleteRecords on a topic that is compacted only.
	ErrPolicyViolation = errors.New("partition: policy violation")
)

// Errors of the layers below, under the names that callers of this package look for.
var (
	ErrRecordTooLarge         = record.ErrBatchTooLarge // larger than max.message.bytes
	ErrInvalidRecord          = record.ErrInvalidRecord
	ErrInvalidTimestamp       = record.ErrInvalidTimestamp
	ErrUnsupportedCompression = record.ErrUnsupportedCodec
	ErrCorrupt                = record.ErrCorrupt // damaged bytes, of a request or on disk
	ErrOffsetOutOfRange       = log.ErrOffsetOutOfRange
)
