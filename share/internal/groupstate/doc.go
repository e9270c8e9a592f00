// Package groupstate implements the share coordinator's state of one share-partition as a pure
// state machine. The state is initialised, read by the partition's leader, written, summarised and
// deleted (KIP-932; Kafka: ShareCoordinatorShard). A write is one record: an update or, after a
// number of them, a snapshot.
//
// Two epochs fence: the leader epoch a former leader of the partition, the state epoch a leader
// that has not seen an administrator's reset of the start offset.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so.
package groupstate
