package inflight

import (
	"errors"
	"time"
)

// State is the state of a record in flight. The numbers are those stored, of Kafka's RecordState.
type State int8

// The states.
const (
	Available    State = 0
	Acquired     State = 1
	Acknowledged State = 2
	Archived     State = 4
)

var stateNames = map[State]string{Available: "Available", Acquired: "Acquired", Acknowledged: "Acknowledged", Archived: "Archived"}

// String returns Kafka's name.
func (s State) String() string { return stateNames[s] }

// Terminal reports whether records in this state are finished.
func (s State) Terminal() bool { return s == Acknowledged || s == Archived }

// AckType is a type of acknowledgement. The numbers are those on the wire (AcknowledgeType).
type AckType int8

// The types of acknowledgement.
const (
	Gap     AckType = 0 // there is no record with this offset
	Accept  AckType = 1
	Release AckType = 2 // deliver it again, to any member
	Reject  AckType = 3 // do not deliver it again
	Renew   AckType = 4 // the member continues to process it, with a new lock
)

// Config is the part of a group's configuration that a Partition uses. It may change between two
// steps; records acquired before keep their deadline.
type Config struct {
	LockDuration     time.Duration // share.record.lock.duration.ms
	MaxDeliveryCount int           // share.delivery.count.limit, at least 1
	MaxInFlight      int64         // share.partition.max.record.locks, at least 1: from start to end
}

// throttleFrom returns the delivery count from which records are acquired in smaller parts. A
// record that makes its members fail then takes fewer others to the limit.
func (c *Config) throttleFrom() int { return max(2, (c.MaxDeliveryCount+1)/2) }

// Errors for members. The names in the comments are Kafka's error codes.
var (
	ErrInvalidRequest = errors.New("share: invalid acknowledgement")                        // INVALID_REQUEST
	ErrInvalidState   = errors.New("share: record is not acquired by this member any more") // INVALID_RECORD_STATE
)

// A Batch is a range of offsets in one state.
type Batch struct {
	First, Last int64 // both inclusive
	State       State
	Count       int16 // deliveries so far
}

// A Snapshot is the stored state of a share-partition.
type Snapshot struct {
	Start   int64   // the start offset
	Batches []Batch // by offset, without overlaps; gaps between them are available
}

// A Delta is a change of the stored state. It is complete in itself: Start and Batches replace
// older values of the same offsets.
type Delta struct {
	Start    int64
	Batches  []Batch
	Complete int32 // offsets from Start on that are Acknowledged or Archived
}
