// Package group coordinates consumer groups: their members, the assignment of partitions to
// members, and committed offsets.
//
// Applications use groups through package consumer, on a cluster of package strata, which runs a
// Coordinator. Use this package to administer groups (Admin), or to build a cluster without package
// strata.
//
// A Coordinator keeps groups and committed offsets in the internal topic __consumer_offsets, in
// Kafka's formats. In the classic protocol the members join, and one of them, the group leader,
// assigns the partitions with an assignor.Assignor; each member then gets its partitions. In the
// newer protocol (KIP-848) the coordinator assigns the partitions, and members use only heartbeats
// (ConsumerHeartbeat).
//
// # Promises
//
//   - A partition has at most one owner per generation, and generations only increase while the
//     group exists.
//   - A commit is durable when it returns. A commit from an earlier generation, or by a fenced
//     member, changes nothing. A rejected request has changed nothing.
//   - If a write or fsync fails, the change's error states that (ErrNotCoordinator), and groups are
//     as before the change. After a failed write they stay so. After a failed fsync that partition
//     of the offsets topic accepts no more changes until the cluster is opened again. The state is
//     then that without the change or that with the whole change: query it before you repeat a
//     relative change (ShiftBy). The one exception is DeleteGroup of a group whose offsets fill
//     several batches: it can end between two of them, and may be called again.
//   - Heartbeats never wait for a disk.
//   - The timer of a rebalance never restarts because another member joins or leaves.
//   - After a restart of the process, members that ran in it are removed at once, so no member
//     waits for their sessions to time out. Members that joined over the network stay members,
//     static or not, as long as they send heartbeats. Offsets are unchanged.
//   - A group survives the failure of its coordinator: the next leader of its partition of the
//     offsets topic has its members, their assignments and every confirmed commit. A request in
//     progress fails with ErrNotCoordinator at the old broker (On); calls of this process continue
//     at the next coordinator.
//   - A partition of the offsets topic that has no leader, or cannot be loaded, affects only
//     its own groups.
//   - Each rebalance of a group of any type is in Events, with its causes and duration.
//   - RewindGroup also moves a group with members, and no late commit overwrites the new offsets.
//
// # Parts
//
// Package assignor has the assignors and the data that members and the group leader exchange.
// Below internal, protocol has the requests and responses, classic the classic protocol as a pure
// state machine, modern the newer protocol, sharing a share group, streaming a streams group, kinds
// a group of any of these kinds, and history its events. The module's internal/coordinator runs
// them over the partitions of the offsets topic: it writes the records of internal/offsets, and
// sends responses only when these are committed.
//
// # Deviations from Kafka
//
//   - A group without members rebalances immediately when the first one joins; Kafka waits 3 s
//     (Config.InitialRebalanceDelay).
//   - Offsets do not expire unless Config.OffsetsRetention is set; in Kafka they expire after 7
//     days.
//   - Requests wait while groups are being loaded; Kafka rejects them.
//   - After a failed append the partition's groups are loaded from the log again; Kafka reverts the
//     one change.
//   - A tie in the vote for a protocol is decided by the group leader's order; in Kafka by chance.
//   - Kafka's tools cannot reset a group with members; RewindGroup removes the members first.
//   - When a group changes to the newer protocol, a cooperative member keeps the partitions that it
//     owned when it last joined. A classic member that was removed from such a group must join it
//     without partitions. In Kafka the next member can get the partitions before the previous owner
//     learns that it lost them.
//   - In the newer protocol a regular expression is resolved immediately, in Kafka in the
//     background. The hash of a group's topics is not Kafka's: a group created by Kafka begins one
//     additional epoch.
//   - The client host of members in this process is not an address: it begins with "in-process-".
package group
