// Package inflight is a share-partition as a pure state machine: which records of one partition of
// one topic are with which member of a share group, which are done with, and which are to be
// handed out next (KIP-932; Kafka: SharePartition).
//
// Records between the start offset and the end offset are in flight: below the start all is done
// with, from the end on nothing was handed out. A record in flight is in one of four states:
//
//	Available     to be handed out
//	Acquired      with a member, until its lock's deadline
//	Acknowledged  accepted: never handed out again
//	Archived      given up: rejected, delivered too often, or not a record at all
//
// # Invariants
//
//   - A record is with one member at most, and goes to another only when it was released, its
//     lock has passed, or its member has left.
//   - A record that was accepted or archived is never handed out again.
//   - What is Available, or was never acquired, is handed to the next member that asks: no record
//     is stuck, and only offsets without a record are passed over.
//   - What a member says of a record that it does not have is refused, also when that record is
//     below the start. Who had it when the log lost it may say what has become of it, until its
//     lock passes.
//   - Nothing from Config.MaxInFlight above the start on is handed out, which bounds what is kept
//     in memory: neighbours in the same state are one run.
//
// # Durability
//
// A step changes the state at once; Delta returns what of it is to be stored, since the last Delta.
// The owner answers an acknowledgement when the Delta that has it is stored. If storing fails it
// may be stored all the same: the owner says NotStored, the next Delta says it again, and what was
// said counts meanwhile. The member is told of the error, and may say the same again (Doubt).
// Nobody else notices. Kafka instead takes back what could not be stored.
//
// Acquired is not stored: where a Partition is made from what is stored all locks are gone, and the
// records are available with the number of deliveries that was stored last.
//
// The package has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so.
package inflight
