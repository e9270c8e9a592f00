// Package groupstate is the share coordinator's decisions about one share-partition, as a pure
// state machine: it is initialised, read by who leads the partition, written, summed up and deleted
// (KIP-932; Kafka: ShareCoordinatorShard). A write is one record: an update or, after a number of
// them, a snapshot.
//
// Two epochs fence: the leader epoch who led the partition before, the state epoch who has not
// heard that an administrator has reset the start offset.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so.
package groupstate
