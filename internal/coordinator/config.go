package coordinator

import (
	"log/slog"
	"time"

	"github.com/stratalog/strata/internal/machine"
)

// A Kind says how machines are made, stored and told about the runtime's own events. Its functions
// are called for several shards at once, each under its shard's mutex: they share no state, and do
// not block.
type Kind[M machine.Machine[E, R], E, R any] struct {
	New func(id string) M
	ID  func(R) string // of the machine that a record belongs to

	// Partition returns which of the topic's partitions a machine is in, of at least one.
	Partition func(id string, partitions int32) int32

	// Encode returns a record's key and value; a nil value is a tombstone. They are the runtime's.
	Encode func(R) (key, value []byte)

	// Decode is the reverse of Encode. A record of another kind, as later versions may write, is
	// no error: known is false then, and the record is passed over. key and value are the
	// runtime's, which may use their bytes again after the call: r must not refer to them.
	Decode func(key, value []byte) (r R, known bool, err error)

	Tick, Expire, Loaded E // time has passed; look for what is too old; recovery is through
	Cancel               func(machine.Ticket) E
}

// Config describes a Runtime. All fields must be set but Notify.
type Config struct {
	Topic          string        // for log lines
	ExpiryInterval time.Duration // between Expire events
	MaxBatchBytes  int
	Logger         *slog.Logger

	// Notify is given the Notices of accepted steps, and what they had to tell when they are
	// committed, and which Shard the machine is in, without locks. It must not block. nil: nobody
	// is.
	Notify func(from ShardID, notice any)
}

// A ShardID tells a Shard from all others of its Runtime.
type ShardID struct {
	Partition int32
	Leadership
}
