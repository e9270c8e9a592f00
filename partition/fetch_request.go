package partition

import (
	"context"
	"time"

	"github.com/stratalog/strata/record"
)

// An Isolation determines the records that a reader sees. The zero value is the safest. Kafka:
// isolation.level.
type Isolation uint8

const (
	// ReadCommitted reads up to the last stable offset, and lists the aborted transactions.
	ReadCommitted   Isolation = iota
	ReadUncommitted           // reads up to the high watermark
)

// A FetchRequest reads records of several partitions at once. The zero values of its limits mean no
// limit and no waiting.
type FetchRequest struct {
	// Partitions are read in this order. Unless InOrder is set, the first one may be a partition
	// that earlier fetches left unread.
	Partitions []FetchPartition
	InOrder    bool // reads in the order of Partitions; the caller prevents starvation of a partition
	// MinBytes is the number of bytes to wait for, over all partitions; 0 counts as 1.
	MinBytes  int
	MaxBytes  int           // maximum size of the response; the first batch may exceed it
	MaxWait   time.Duration // longest wait for MinBytes; 0 does not wait
	Isolation Isolation
	// Rack is the reader's rack. If replicas are selected by racks, an in-sync follower in that
	// rack serves the read, or the response names it (KIP-392). Empty means that leaders serve the
	// read.
	Rack string
	// LeaderOnly makes a broker return ErrNotLeader for partitions that it only follows.
	LeaderOnly bool
	// Partial is ReadRequest.Partial.
	Partial bool

	// Reserve reserves memory for each read before it is made. Release returns the part that was
	// not needed, or that is read again. The memory of the response stays reserved, up to MaxBytes.
	// Reserve may wait, and its error ends the fetch. Both may be nil.
	Reserve func(ctx context.Context, bytes int) error
	Release func(bytes int)

	// Buf is memory for the response, overwritten from its beginning. FetchedPartition.Bytes alias
	// it, as far as it is large enough. It belongs to the fetch until the fetch returns. nil means
	// new buffers.
	Buf []byte
}

// A FetchPartition is the part of a FetchRequest for one partition.
type FetchPartition struct {
	record.TopicPartition
	Offset             int64 // first record to read
	MaxBytes           int   // maximum for this partition; 0 means no limit of its own
	CurrentLeaderEpoch int32 // the reader's leader epoch of the partition; -1 is not checked
	// LastFetchedEpoch is the leader epoch of the reader's last record below Offset, or a newer epoch
	// of records that were read. If the log has since been truncated below Offset, the fetch fails with
	// ErrTruncated (KIP-320). -1 is not checked.
	LastFetchedEpoch int32
	// TopicID is the id of the topic that Offset belongs to; the zero id is not checked. A topic
	// that was deleted and created again has another id: the fetch fails with
	// ErrInconsistentTopicID (KIP-516).
	TopicID [16]byte
}

// A FetchResponse has one result per requested partition, in the order of the request.
type FetchResponse struct {
	Partitions []FetchedPartition
}

// A FetchedPartition is the result of a fetch for one partition.
type FetchedPartition struct {
	record.TopicPartition
	Err              error
	HighWatermark    int64 // the three offsets are -1 if Err is set
	LastStableOffset int64
	LogStartOffset   int64
	LeaderEpoch      int32

	// PreferredReplica is the broker that the reader should fetch from instead: its follower is in
	// the reader's rack. Then there are no bytes. 0 means that the reader continues here.
	PreferredReplica int32

	// Aborted has the aborted transactions that overlap Bytes, in the order of their markers. It
	// may have more than needed. It is nil under ReadUncommitted.
	Aborted []AbortedTxn

	// Bytes has whole, verified batches, in a buffer that belongs to the caller (see
	// FetchRequest.Buf). The first batch may begin below the requested offset.
	Bytes []byte
}

// An AbortedTxn is an aborted transaction: a read-committed reader skips the transactional batches
// of the producer from FirstOffset up to the abort marker.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// An OffsetSpec selects an offset by kind or by time: it is one of the constants, or At. The
// numbers are Kafka's.
type OffsetSpec int64

const (
	// Latest is the end for the isolation level: the high watermark or the last stable offset.
	Latest       OffsetSpec = -1
	Earliest     OffsetSpec = -2 // the log start offset
	MaxTimestamp OffsetSpec = -3 // the first record that has the largest timestamp
)

// At selects the first record whose timestamp is t or later. Times before 1970 count as 1970.
func At(t time.Time) OffsetSpec { return OffsetSpec(max(t.UnixMilli(), 0)) }

// An OffsetResult is the result of an OffsetSpec.
type OffsetResult struct {
	Offset      int64 // -1: no such record
	TimestampMs int64 // of that record; -1 for Earliest and Latest and if there is none
	LeaderEpoch int32 // of that record; -1: unknown
	Err         error
}
