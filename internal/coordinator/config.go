package coordinator

import (
	"log/slog"
	"time"

	"github.com/stratalog/strata/internal/machine"
)

// A Kind describes machines: how they are made, stored, and notified of the runtime's own events.
// Its functions are called for several shards at once, each under its shard's mutex: they share no
// state, and do not block.
type Kind[M machine.Machine[E, R], E, R any] struct {
	New func(id string) M
	ID  func(R) string // id of the machine that a record belongs to

	// Partition returns the partition of a machine in a topic with at least one.
	Partition func(id string, partitions int32) int32

	// Encode returns a record's key and value, owned by the runtime; a nil value is a tombstone.
	Encode func(R) (key, value []byte)

	// Decode is the reverse of Encode. known is false, without an error, for records of an unknown
	// type, as later versions may write; they are skipped. r must not refer to key and value: the
	// runtime reuses their bytes after the call.
	Decode func(key, value []byte) (r R, known bool, err error)

	Tick, Expire, Loaded E // time has passed; remove expired state; recovery has ended
	Cancel               func(machine.Ticket) E
}

// Config describes a Runtime. All fields except Notify must be set.
type Config struct {
	Topic          string        // for log lines
	ExpiryInterval time.Duration // between Expire events
	MaxBatchBytes  int
	Logger         *slog.Logger

	// Notify receives the Notices of accepted steps, and their Committed notices after the commit,
	// with the machine's Shard. It is called without locks and must not block. nil discards them.
	Notify func(from ShardID, notice any)

	// Record receives the events of Observed machines once the records of their steps are
	// committed. The events of a machine are in order. It is called with the shard's lock and must
	// not block. Notify receives them afterwards. nil discards them.
	Record func(from ShardID, event any)
}

// A ShardID identifies a Shard in its Runtime.
type ShardID struct {
	Partition int32
	Leadership
}
