package inflight

import (
	"errors"
	"time"
)

// State is what is the matter with a record in flight. The numbers are those of Kafka's
// RecordState, as they are stored.
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

// Terminal reports whether a record in this state is done with.
func (s State) Terminal() bool { return s == Acknowledged || s == Archived }

// AckType is what a member has to say of a record that it was handed. The numbers are those of the
// wire (AcknowledgeType).
type AckType int8

// The types of acknowledgement.
const (
	Gap     AckType = 0 // there is no record with this offset
	Accept  AckType = 1
	Release AckType = 2 // hand it out again, to anybody
	Reject  AckType = 3 // do not hand it out again
	Renew   AckType = 4 // the member goes on with it: another lock from now
)

// Config is what a Partition needs to know of its group's configuration. It may change between two
// steps; what was acquired keeps its deadline.
type Config struct {
	LockDuration     time.Duration // share.record.lock.duration.ms
	MaxDeliveryCount int           // share.delivery.count.limit, at least 1: the last delivery of a record
	MaxInFlight      int64         // share.partition.max.record.locks, at least 1: from start to end
}

// throttleFrom is from how many deliveries on records are handed out in smaller parts, so that one
// that its members do not survive does not take its neighbours to the limit.
func (c *Config) throttleFrom() int { return max(2, (c.MaxDeliveryCount+1)/2) }

// What a member is told. The names in brackets are Kafka's error codes.
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

// A Snapshot is what is stored of a share-partition.
type Snapshot struct {
	Start   int64   // the start offset
	Batches []Batch // by offset, without overlaps; a gap between them was not delivered
}

// A Delta is a change of what is stored. It stands for itself: Start and the Batches prevail over
// what was stored before for the same offsets.
type Delta struct {
	Start    int64
	Batches  []Batch
	Complete int32 // offsets from Start on that are Acknowledged or Archived
}
