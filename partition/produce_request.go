package partition

import (
	"time"

	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// A ProduceRequest appends one batch to one partition. The caller fills the exported fields and
// leaves the request alone until Done.
//
// A request may be used again after Done, except after ErrTimeout: then the log may still be at
// work on it, so neither the request nor the bytes of Batch may be touched again (leave them to the
// garbage collector).
type ProduceRequest struct {
	TopicPartition record.TopicPartition // for the one who routes the request, and for messages

	// TopicID, unless it is zero, is the topic that the batch is meant for: whoever routes the
	// request refuses it if the topic of that name is another one by now, deleted and created
	// again.
	TopicID [16]byte

	// Batch is exactly one encoded batch as a client sends it: base offset 0, any leader epoch. It
	// is borrowed, and must not change, until Done; it is never written to.
	Batch []byte

	// Built says that Batch was made by a record.Builder in this process and was in nobody else's
	// hands since: its header is checked, its CRC and its records are not gone through again (see
	// record.CheckBuilt). Never for bytes that came from elsewhere.
	Built bool

	// DiscardRecords has the records of the batch thrown away once all is checked: an empty batch
	// takes its place, with its offsets, sequences and timestamps. Everything else is as it would
	// be. For tests and benchmarks that read nothing back.
	DiscardRecords bool

	// LeaderEpoch, unless it is nil, binds the append to one epoch of the leader: it is written in
	// that epoch or refused, with ErrFencedLeaderEpoch or ErrUnknownLeaderEpoch, or with
	// ErrNotLeader if the epoch ends while the append waits for its turn. For who decides by what
	// it has read of the partition as its leader: coordinators.
	LeaderEpoch *int32

	// Acks says when Done is called: AcksAll when every in-sync replica has the batch, AcksLeader
	// when the leader has it (both: on stable storage under SyncOnAck), AcksNone when it is
	// written, or without a producer id under SyncOnAck as soon as it was checked: BaseOffset is -1
	// then, and it is written when the syncs before it are through. If 4 MiB wait for that, it
	// waits as well.
	Acks record.Acks

	// Timeout bounds the wait for the acknowledgement, not the append: when it has passed, Done
	// gets ErrTimeout and the records stay in the log. 0: no bound. Kafka: timeout_ms of the
	// produce request.
	Timeout time.Duration

	// TransactionalID must be set for a transactional batch, but for a coordinator's.
	TransactionalID string

	// TxnVersion is the transaction.version of a client that writes in a transaction, 0 to 2. From
	// 2 on its first write in a transaction adds the partition to it, from sequence 0 on; before
	// that the client has added it. Kafka: 2 from version 12 of the request on. Of a coordinator's
	// marker it is TxnMarker.Version.
	TxnVersion int16

	// Guard, of a transactional batch, is what GuardTransaction gave; nil: the partition asks the
	// coordinator, if the transaction is not open here.
	Guard *TxnGuard

	// Coordinator says that Batch is from the coordinator that keeps its state in the partition:
	// the order in which it writes in transactions is its affair. The sequence of a batch with a
	// producer id is not compared with any other, its epoch is. Nobody is asked about a first
	// write: what GuardTransaction has given for the transaction lets it in, and Guard is not
	// looked at. Batch may be a transaction marker. Kafka: AppendOrigin.COORDINATOR.
	Coordinator bool

	// Done is called exactly once, without locks held, by whichever goroutine learns the outcome
	// (also by the one inside Produce). It must not block.
	Done func(ProduceResult)

	p          *Partition
	append     log.Append
	result     ProduceResult
	lastOffset int64 // once written
	refused    bool  // by Admit: nothing was appended
	marker     *marker
	guard      *TxnGuard
	copy       *Copy                            // a batch from the leader: nobody waits for an answer
	ack        watermark.Entry[*ProduceRequest] // under p.mu, like the rest
	deadline   watermark.Entry[*ProduceRequest]
	next       *ProduceRequest // in the list of those to be told
	written    bool            // in the log
	decided    bool            // result is final: set once, under mu
	timed      bool            // it has a deadline
	expires    time.Duration   // when that is, since the partition was opened
}

// A ProduceResult is the outcome of a ProduceRequest.
type ProduceResult struct {
	// BaseOffset is that of the batch's first record; -1 if Err says that nothing was appended.
	BaseOffset int64
	// LogAppendTimeMs is the timestamp that the leader gave to the records; -1 unless the topic
	// uses LogAppendTime.
	LogAppendTimeMs int64
	LogStartOffset  int64 // first readable offset; -1 if unknown
	LeaderEpoch     int32 // epoch of the leader that answered; -1 if unknown
	// Duplicate: the batch was in the log before, at BaseOffset; nothing was written.
	Duplicate bool
	Err       error
	// Records are those to blame for ErrInvalidRecord or ErrInvalidTimestamp, if known.
	Records []RecordError
}

// A RecordError names one bad record of a refused batch.
type RecordError struct {
	Index  int32 // position in the batch, from 0
	Reason string
}
