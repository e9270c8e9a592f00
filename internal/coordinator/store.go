package coordinator

import (
	"context"

	"github.com/stratalog/strata/partition"
)

// A Store gives access to the internal topic. Its methods are called concurrently.
type Store interface {
	// Partitions returns the number of partitions of the topic. If it does not exist it is created
	// if create is set; otherwise the result is 0.
	Partitions(ctx context.Context, create bool) (int32, error)

	// Leader returns the leadership of a partition. Epochs never decrease. It does not block.
	Leader(partition int32) (Leadership, error)

	// Log returns a partition for use in one leader epoch.
	Log(partition int32, led Leadership) (Log, error)
}

// A Leadership is one epoch in which a broker leads a partition. An epoch has one broker.
type Leadership struct {
	Broker int32 // -1 if none
	Epoch  int32
}

// A Log is one partition of the topic in one epoch. The Shard of that epoch is its only writer.
type Log interface {
	// Append writes one batch in the Log's epoch: of records, or of records in a producer's
	// transaction. It takes batch, and does not change it. It calls done exactly once, without
	// locks: with nil when the batch is committed, otherwise with an error. That is ErrUncertain if
	// the batch may be in the log, and ErrMoving if the epoch has ended. Batches are written in the
	// order of the calls. Append may block for a disk write, but not until the batch is committed.
	Append(batch []byte, done func(error))

	// AppendMarker is Append for a transaction marker with that transaction.version.
	AppendMarker(marker []byte, version int16, done func(error))

	// GuardTransaction makes the partition accept records of a producer's transaction. Unless the
	// transaction is open there, it checks with the transaction's coordinator. It calls done once,
	// without locks: with nil if records may be appended until the producer's next marker,
	// otherwise with the error for the producer, or an error of Append. It does not block.
	GuardTransaction(w partition.TxnWrite, done func(error))

	// Read appends whole batches to dst, from the one with offset from, about max bytes but at
	// least one batch. If there is none below the end it returns dst.
	Read(dst []byte, from int64, max int) ([]byte, error)

	// Bounds returns the start offset and the end of the committed records, which includes all of
	// earlier epochs. Until those are known to be committed, it fails with ErrMoving.
	Bounds() (start, end int64, err error)
}
