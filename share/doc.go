// Package share implements the broker side of share groups (KIP-932), which process a topic's
// records as a queue. Members acquire single records of the same partitions, acknowledge each, and
// get records again that were not acknowledged.
//
// Applications use share groups through consumer.Share, on a cluster of package strata, which runs
// a Coordinator. Use this package to build a cluster without package strata. For groups with one
// member per partition, use package group.
//
// The coordinator stores the durable state of a share-partition, which is a partition of a topic
// for one group: its start offset, and the records above it that are done or were delivered. The
// state is in the internal topic __share_group_state, in Kafka's schemas. It is a pure machine
// (share/internal/groupstate) on the runtime that groups and transactions also use.
//
// The leader of a partition hands out its records. It tracks the member that holds each record, in
// a pure machine, too (share/internal/inflight). Members in this process choose their own names
// (consumer.Share), and may fetch from all partitions. Members over the network belong to a group
// of package group, which assigns partitions to them; package kafka has their sessions. A fetch
// selects whether records of open and aborted transactions are handed out; for members over the
// network the group's configuration does (share.isolation.level).
//
// # Promises
//
//   - Written state is durable when the call returns. No write of an earlier leader epoch or state
//     epoch follows it.
//   - A record is held by at most one member. Another member gets it when it is released, its lock
//     times out, its member leaves, or the partition has a new leader. Acknowledgements of other
//     members are then rejected.
//   - Once Acknowledge has returned, an accepted or rejected record is not delivered again,
//     whichever brokers lead the partition and the state topic, and also after crashes.
//   - Every other record is delivered until it is accepted, rejected, or was delivered
//     Config.MaxDeliveryCount times.
//   - A member in this process may lock records ahead (FetchRequest.BeginLater). Their delivery
//     counts from Coordinator.Begin, which fails if another member holds the record. Over the
//     network a delivery counts when a record is acquired, as in Kafka.
//   - Waiting for records does not poll. No lock is held during a wait for a disk, a channel or a
//     callback.
//   - The state topic does not grow without bound: records that a snapshot replaces are deleted.
//   - Close ends every call and returns when the last goroutine has ended.
package share
