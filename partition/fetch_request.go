package partition

import (
	"context"
	"time"

	"github.com/stratalog/strata/record"
)

// Isolation says which records a reader sees. The zero value is the safest. Kafka: isolation.level.
type Isolation uint8

const (
	// ReadCommitted reads up to the last stable offset, with the aborted transactions named.
	ReadCommitted   Isolation = iota
	ReadUncommitted           // up to the high watermark
)

// A FetchRequest asks for records of several partitions at once. The zero values of the limits
// mean: no limit, do not wait.
type FetchRequest struct {
	// Partitions are read in this order, beginning with the first one or, unless InOrder is set,
	// with one that earlier fetches left unread.
	Partitions []FetchPartition
	InOrder    bool // the caller sees to it that no partition starves
	// MinBytes is waited for, over all partitions; 0 counts as 1.
	MinBytes  int
	MaxBytes  int           // of the whole response; the first batch may exceed it
	MaxWait   time.Duration // longest wait for MinBytes; 0: answer at once
	Isolation Isolation
	// Rack is that of the reader. If replicas are selected by racks, it is served by, or told of,
	// an in-sync follower in its rack (KIP-392). Empty: the leaders serve it.
	Rack string
	// LeaderOnly: what the broker that is asked does not lead is ErrNotLeader, although it follows.
	LeaderOnly bool
	// Partial: see ReadRequest.
	Partial bool

	// Reserve is asked for the memory of each read before it is made, and Release told of what was
	// not needed or is read again; what is returned stays reserved, up to MaxBytes. Reserve may
	// wait, and its error ends the fetch. nil, both: nobody counts.
	Reserve func(ctx context.Context, bytes int) error
	Release func(bytes int)

	// Buf is memory for what is read, overwritten from its beginning: FetchedPartition.Bytes alias
	// it as long as it lasts. It is the fetch's until that returns. nil: fresh buffers.
	Buf []byte
}

// A FetchPartition is the part of a FetchRequest for one partition.
type FetchPartition struct {
	record.TopicPartition
	Offset             int64 // first record wanted
	MaxBytes           int   // of this partition; 0: no limit of its own
	CurrentLeaderEpoch int32 // epoch that the reader believes in; -1: not checked
	// TopicID is the id of the topic that Offset belongs to; the zero id is not checked. A topic
	// that was deleted and created again has another one: the fetch fails with
	// ErrInconsistentTopicID (KIP-516).
	TopicID [16]byte
}

// A FetchResponse has one answer per partition asked for, in the order of the request.
type FetchResponse struct {
	Partitions []FetchedPartition
}

// A FetchedPartition is what was read of one partition.
type FetchedPartition struct {
	record.TopicPartition
	Err              error
	HighWatermark    int64 // the three offsets are -1 if Err is set
	LastStableOffset int64
	LogStartOffset   int64
	LeaderEpoch      int32

	// PreferredReplica is the broker that the reader is to ask instead: its follower is in the
	// reader's rack. There are no bytes then. 0: read on here.
	PreferredReplica int32

	// Aborted are the aborted transactions that overlap Bytes, in the order of their markers; it
	// may name more than needed. nil under ReadUncommitted.
	Aborted []AbortedTxn

	// Bytes are whole, verified batches, in a buffer that belongs to the caller (see
	// FetchRequest.Buf). The first may begin below the offset asked for.
	Bytes []byte
}

// An AbortedTxn tells a read-committed reader to skip the transactional batches of a producer from
// FirstOffset up to its abort marker.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// An OffsetSpec asks for an offset by meaning or by time: one of the constants, or At. The numbers
// are Kafka's.
type OffsetSpec int64

const (
	// Latest is the end that the isolation level shows: high watermark or last stable offset.
	Latest       OffsetSpec = -1
	Earliest     OffsetSpec = -2 // the log start offset
	MaxTimestamp OffsetSpec = -3 // the first record that has the largest timestamp
)

// At asks for the first record whose timestamp is t or later. Times before 1970 count as 1970.
func At(t time.Time) OffsetSpec { return OffsetSpec(max(t.UnixMilli(), 0)) }

// An OffsetResult answers an OffsetSpec.
type OffsetResult struct {
	Offset      int64 // -1: no such record
	TimestampMs int64 // of that record; -1 for Earliest and Latest and if there is none
	LeaderEpoch int32 // of that record; -1: unknown
	Err         error
}
