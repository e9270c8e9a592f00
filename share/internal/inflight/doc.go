// Package inflight implements a share-partition as a pure state machine. It tracks which records of
// a partition are acquired by which member of a share group, which are finished, and which to
// deliver next (KIP-932; Kafka: SharePartition).
//
// Records from the start offset up to the end offset are in flight. Those below the start are
// finished; from the end on no record was acquired. A record in flight is in one of four states:
//
//	Available     to be delivered
//	Acquired      with a member, until its lock's deadline
//	Acknowledged  accepted: never delivered again
//	Archived      given up: rejected, delivered too often, or not a record at all
//
// # Invariants
//
//   - At most one member has acquired a record. Another can acquire it only after it was released,
//     its lock has expired, or the member has left.
//   - An acknowledged or archived record is never acquired again.
//   - A record that is Available, or beyond the end, goes to the next member that fetches. Only
//     offsets without a record are passed over.
//   - Acknowledgements of records that the member has not acquired are rejected, also below the
//     start. When the log loses acquired records, their member may acknowledge them until the lock
//     expires.
//   - No record at or beyond start+Config.MaxInFlight is acquired. This bounds memory: neighbours
//     in the same state are one run.
//
// # Durability
//
// A step changes the state at once. Delta returns the changes to store since the last Delta. The
// owner answers an acknowledgement when the Delta with it is stored. A failed write may have stored
// it nevertheless: the owner calls NotStored, the next Delta includes it again, and the
// acknowledgement stays in effect. The member receives the error and may repeat its acknowledgement
// (Doubt). Other members are not affected. Kafka instead reverts changes that were not stored.
//
// Acquired is not stored: a Partition made from stored state has no locks. The records are
// available, with the delivery count that was stored last.
//
// The package has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so.
package inflight
