// Package share is the broker's half of share groups (KIP-932): queues over topics, whose members
// take single records from the same partitions, acknowledge each, and get again what nobody has.
//
// The coordinator keeps what is durable of a share-partition, a partition of a topic for a group,
// in the internal topic __share_group_state, in Kafka's schemas: where it starts, and the records
// above that which are done with or were delivered. It is a pure machine
// (share/internal/groupstate) run by the runtime that groups and transactions use.
//
// Who leads a partition hands out its records: what is with which member is a pure machine, too
// (share/internal/inflight). Members name themselves; that of a process is package consumer's
// Share. Those over the wire are members of a group of package group, which assigns them
// partitions; package kafka has their sessions. A member in process may fetch from all partitions.
// Who fetches says whether records of open and of aborted transactions are handed out; for those
// over the wire the group's configuration does (share.isolation.level).
//
// # Promises
//
//   - What was written is durable when the call returns, and nothing of an earlier leader epoch or
//     state epoch is written behind it.
//   - A record is with one member at most. It is another's when it was released, its lock has
//     passed, its member has left, or the partition has another leader: nobody else's
//     acknowledgement counts then.
//   - What was accepted or rejected is not handed out again once Acknowledge has returned, whoever
//     leads the partition or its coordinator, and over crashes.
//   - Everything else is handed out until it is accepted, rejected, or was delivered
//     Config.MaxDeliveryCount times.
//   - Who waits for records does not poll, and no lock is held while a disk, a channel or a
//     callback is waited for.
//   - The log of the topic does not grow without end: what snapshots make superfluous is deleted.
//   - Close ends every call and returns when the last goroutine has ended.
package share
