// Package machine is the contract between a pure state machine and the runtime that owns it.
//
// A Machine has no clock, lock, goroutine or I/O. The runtime (package coordinator) passes it
// events and the time, writes its records to a log, and sends its replies once the records are
// committed. Groups, transactional ids and the states of share-partitions are Machines.
package machine

import (
	"errors"
	"time"
)

// A Machine is the state of one thing that a coordinator manages, for example a group. E are its
// events, R the records of its durable state. It is not safe for concurrent use.
type Machine[E, R any] interface {
	// Step applies ev at time now to a draft of the state. The next call must be Accept or Discard.
	// The caller owns the slices of the Effects.
	Step(now time.Time, ev E) Effects[R]

	// Accept makes the draft the state and applies the records of its Effects. The log has accepted
	// these, or there are none.
	Accept()

	// Discard drops the draft, whose records are not written. Its Replies must not be sent.
	Discard()

	// Apply is the only function that changes durable state. Accept calls it, and recovery calls it
	// for each record of the log. r is kept.
	Apply(r R)

	// Forgotten reports whether the machine has no state, so that it can be dropped.
	Forgotten() bool
}

// A Transactional machine has records that belong to transactions of producers. Its Step names the
// producer in Effects.Producer, and Accept applies such records with ApplyPending.
type Transactional[R any] interface {
	// ApplyPending is Apply for a record in a transaction of a producer, which takes effect if
	// ApplyEnd commits it. It keeps r.
	ApplyPending(producerID int64, r R)

	// ApplyEnd applies the outcome of a producer's transaction: all its records since the last
	// ApplyEnd count, or none. A later record in the log that overwrites one of them was already
	// applied, and prevails. The machine may have no records of the producer.
	ApplyEnd(producerID int64, commit bool)
}

// An Observed machine records events that explain its changes.
type Observed interface {
	// TakeEvents returns the events since the last call, in order. The caller owns the slice.
	TakeEvents() []any
}

// A Producer is the producer id and epoch that the records of a transaction are written with.
type Producer struct {
	ID    int64
	Epoch int16
}

// Effects are the results of a Step.
type Effects[R any] struct {
	Records   []R       // to be written; all in one batch, so all or none, unless Separable
	Producer  *Producer // of the transaction of Records; nil: none. Transactional machines only
	Separable bool      // Records may be spread over several batches: a crash may keep the first ones only
	Replies   []Reply   // to be sent when the records, and all earlier ones of this machine, are committed
	Lingers   bool      // no caller waits for Records: they may wait a moment to share a batch
	WakeAt    time.Time // time of the next tick at the latest; zero: no deadline
	Notice    any       // for the runtime's owner if the draft is accepted; nil if none

	// Committed is for the runtime's owner when the records, and all earlier ones of this machine,
	// are committed; nil if none. If that never happens, or the machine is loaded again first, it
	// is dropped.
	Committed any
}

// A Ticket names a request until its Reply. 0 is no request.
type Ticket uint64

// A Reply answers a request.
type Reply struct {
	To    Ticket
	Value any
	Err   error
	Now   bool // the reply does not wait for any record

	// Later defers the reply: the event has changed nothing. The runtime steps the event again
	// after the machine's next records, in the same batch if there is room, and at this time at the
	// latest. Zero means that this is the reply.
	Later time.Time
}

// Errors of a runtime. Machines may return them too.
var (
	ErrClosed       = errors.New("coordinator: closed")
	ErrNotAvailable = errors.New("coordinator: not available")
	ErrNotLeader    = errors.New("coordinator: not the leader of the partition")
	ErrTooLarge     = errors.New("coordinator: request does not fit in one batch of the log")

	// ErrMoving comes with ErrNotLeader or ErrNotAvailable: the partition has no leader or another
	// one. The request can be repeated with the next leader.
	ErrMoving = errors.New("coordinator: the partition's leader changes")

	// ErrUncertain comes with ErrNotLeader: records of the request may be in the log or not. It is
	// known once the partition is loaded again.
	ErrUncertain = errors.New("coordinator: the change may or may not be stored")

	// ErrInvalidProducerEpoch rejects records and markers of a producer if the partition has seen a
	// newer epoch of it. ErrCoordinatorFenced rejects markers of an earlier transaction
	// coordinator.
	ErrInvalidProducerEpoch = errors.New("coordinator: producer epoch is fenced")
	ErrCoordinatorFenced    = errors.New("coordinator: transaction coordinator was replaced")
)
