package partition

import (
	"errors"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// Errors of a partition. All are matched with errors.Is; the returned errors add which partition and which numbers.
// Retriable by the same request: ErrNotEnoughReplicas, ErrNotEnoughReplicasAfterAppend, ErrNotLeader, ErrTimeout, ErrUnknownLeaderEpoch.
var (
	ErrClosed = errors.New("partition: closed")

	// Producer state.
	ErrOutOfOrderSequence   = errors.New("partition: out of order sequence number") // a gap, or a retry older than the last five batches
	ErrInvalidProducerEpoch = errors.New("partition: producer epoch is fenced")     // an older epoch of the producer id
	ErrInvalidTxnState      = errors.New("partition: not allowed in this transaction state")
	ErrCoordinatorFenced    = errors.New("partition: transaction coordinator epoch is fenced")
	ErrTransactionalID      = errors.New("partition: transactional batch without a transactional id")

	// Leadership and replication.
	ErrLeader                       = errors.New("partition: not allowed on a leader")
	ErrNotLeader                    = errors.New("partition: not the leader")
	ErrFencedLeaderEpoch            = errors.New("partition: leader epoch is fenced")                          // the request's epoch is older
	ErrUnknownLeaderEpoch           = errors.New("partition: leader epoch is not known yet")                   // the request's epoch is newer
	ErrNotEnoughReplicas            = errors.New("partition: fewer in-sync replicas than min.insync.replicas") // nothing was appended
	ErrNotEnoughReplicasAfterAppend = errors.New("partition: too few in-sync replicas after the append")       // the records may stay
	ErrTimeout                      = errors.New("partition: timed out waiting for the acknowledgement")       // the records may stay

	// The batch of a produce request.
	ErrBatchTooLarge = errors.New("partition: batch is larger than a segment")
	ErrInvalidAcks   = errors.New("partition: invalid acks")

	// ErrInconsistentTopicID says that a directory, or the position of a reader, belongs to another topic of the same name.
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
