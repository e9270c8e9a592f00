package partition

import (
	"time"

	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// A ProduceRequest appends one batch to one partition. The caller sets the exported fields and must
// not use the request until Done.
//
// A request may be reused after Done, except after ErrTimeout: then the log may still be using it.
// Neither the request nor the bytes of Batch may be touched then (leave them to the garbage
// collector).
type ProduceRequest struct {
	TopicPartition record.TopicPartition // for routing, and for messages

	// TopicID is the id of the topic that the batch is meant for; the zero id is not checked. The
	// router rejects the request if the topic was deleted and created again.
	TopicID [16]byte

	// Batch is exactly one encoded batch as a client sends it: base offset 0, any leader epoch. It
	// is borrowed, and must not change, until Done; it is never written to.
	Batch []byte

	// Built means that a record.Builder in this process made Batch, and that no other code could
	// change it since. Then its header is validated, but not its CRC and records (see
	// record.CheckBuilt). Never set it for bytes from outside the process.
	Built bool

	// DiscardRecords replaces the batch, after it is validated, with an empty batch that has its
	// offsets, sequences and timestamps. Nothing else changes. It is for tests and benchmarks that
	// do not read the records.
	DiscardRecords bool

	// LeaderEpoch binds the append to one leader epoch; nil means any. The batch is written in that
	// epoch or rejected with ErrFencedLeaderEpoch or ErrUnknownLeaderEpoch. It is rejected with
	// ErrNotLeader if the epoch ends while the append is queued. It is for coordinators, which
	// decide from the records that they have read as the partition's leader.
	LeaderEpoch *int32

	// Acks determines when Done is called. AcksAll: when every in-sync replica has the batch.
	// AcksLeader: when the leader has it. For both, the batch is on stable storage under SyncOnAck.
	// AcksNone: when the batch is written. Under SyncOnAck, AcksNone without a producer id calls
	// Done when the batch is validated: BaseOffset is -1, and the batch is written after the syncs
	// in progress. If 4 MiB of such batches are waiting to be written, it waits for the write too.
	Acks record.Acks

	// Timeout limits the wait for the acknowledgement, not the append: when it has passed, Done is
	// called with ErrTimeout and the records stay in the log. 0 means no limit. Kafka: timeout_ms
	// of the produce request.
	Timeout time.Duration

	// TransactionalID is required for a transactional batch, except a coordinator's.
	TransactionalID string

	// TxnVersion is the transaction.version, 0 to 2, of a client that writes in a transaction. From
	// 2 on, the client's first write in a transaction adds the partition to it, starting at
	// sequence 0; before 2, the client has added the partition. Kafka: 2 from version 12 of the
	// request on. For a coordinator's marker it is TxnMarker.Version.
	TxnVersion int16

	// Guard is the result of GuardTransaction for a transactional batch. nil means that the
	// partition itself checks with the coordinator, if the transaction is not open in the
	// partition.
	Guard *TxnGuard

	// Coordinator means that Batch is from the coordinator whose state is in the partition. The
	// coordinator is responsible for the order of its writes in transactions. The epoch of a batch
	// with a producer id is checked, its sequence is not. A first write needs the permission of an
	// earlier GuardTransaction for the transaction, and Guard is ignored. Batch may be a
	// transaction marker. Kafka: AppendOrigin.COORDINATOR.
	Coordinator bool

	// Done is called exactly once, without locks, on any goroutine (also the one in Produce). It
	// must not block.
	Done func(ProduceResult)

	p          *Partition
	append     log.Append
	result     ProduceResult
	lastOffset int64 // once written
	refused    bool  // by Admit: nothing was appended
	marker     *marker
	guard      *TxnGuard
	// a batch from the leader, without a client that waits for a response
	copy     *Copy
	ack      watermark.Entry[*ProduceRequest] // under p.mu, like the rest
	deadline watermark.Entry[*ProduceRequest]
	next     *ProduceRequest // in the list of requests to complete
	written  bool            // in the log
	decided  bool            // result is final: set once, under mu
	timed    bool            // it has a deadline
	expires  time.Duration   // when that is, since the partition was opened
}

// A ProduceResult is the result of a ProduceRequest.
type ProduceResult struct {
	// BaseOffset is the offset of the batch's first record; -1 if Err means that nothing was
	// appended.
	BaseOffset int64
	// LogAppendTimeMs is the timestamp that the leader gave to the records; -1 unless the topic
	// uses LogAppendTime.
	LogAppendTimeMs int64
	LogStartOffset  int64 // first readable offset; -1 if unknown
	LeaderEpoch     int32 // epoch of the leader that responded; -1 if unknown
	// Duplicate means that the batch was in the log before, at BaseOffset; nothing was written.
	Duplicate bool
	Err       error
	// Records has the invalid records for ErrInvalidRecord or ErrInvalidTimestamp, if known.
	Records []RecordError
}

// A RecordError describes one invalid record of a rejected batch.
type RecordError struct {
	Index  int32 // position in the batch, from 0
	Reason string
}
