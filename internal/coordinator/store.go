package coordinator

import (
	"context"

	"github.com/stratalog/strata/partition"
)

// A Store is the internal topic. Its methods are called concurrently.
type Store interface {
	// Partitions returns how many partitions the topic has. If it does not exist it is made if
	// create is set; otherwise the answer is 0.
	Partitions(ctx context.Context, create bool) (int32, error)

	// Leader returns who leads a partition. What it answers never goes back. It does not block.
	Leader(partition int32) (Leadership, error)

	// Log returns a partition as it is led in one epoch.
	Log(partition int32, led Leadership) (Log, error)
}

// A Leadership is one epoch in which a broker leads a partition. An epoch has one broker.
type Leadership struct {
	Broker int32 // -1: none
	Epoch  int32
}

// A Log is one partition of the topic in one epoch. The Shard of that epoch is its only writer.
type Log interface {
	// Append writes one batch in the Log's epoch, which it may keep but not change: of records, or
	// of records in the transaction of a producer. done is called
	// exactly once, without locks: with nil when the batch is committed, otherwise with an error
	// when that is not known to be so: with ErrUncertain if the batch may be in the log, with
	// ErrMoving if the epoch is over. Batches are written in the order of the calls. Append may
	// block for as long as a write to the disk does, but not until the batch is committed.
	Append(batch []byte, done func(error))

	// AppendMarker is Append of a transaction marker of that transaction.version.
	AppendMarker(marker []byte, version int16, done func(error))

	// GuardTransaction asks the transaction's coordinator whether the partition is in it, unless
	// the transaction is open there. done is called once, without locks: with nil if records of the
	// producer may be appended now, until its next marker; else with why not, as the producer is
	// told, or with the errors of Append. It does not block.
	GuardTransaction(w partition.TxnWrite, done func(error))

	// Read appends whole batches to dst, from the one that holds offset from, about max bytes but
	// at least one batch. Without one below the end it returns dst.
	Read(dst []byte, from int64, max int) ([]byte, error)

	// Bounds returns the first offset and the end of what is committed in the epoch: at least what
	// was in an earlier one. While that is not known to be committed, it fails with ErrMoving.
	Bounds() (start, end int64, err error)
}
