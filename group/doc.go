// Package group coordinates consumer groups: who is a member, who reads which partition, how far
// each group has read.
//
// A Coordinator keeps groups and committed offsets in the internal topic __consumer_offsets, in
// Kafka's formats, and speaks the classic group protocol: members join, one of them, the group
// leader, shares the partitions out with an assignor.Assignor, all fetch their part. In the newer
// protocol (KIP-848) the coordinator shares them out, and members say and hear all by heartbeats
// (ConsumerHeartbeat).
//
// # Promises
//
//   - A partition has at most one owner per generation, and generations
//     only grow while the group exists.
//   - A commit is durable when it returns; one from an earlier generation, or by a fenced member,
//     changes nothing. A request that is refused has changed nothing.
//   - A change whose write or fsync failed is an error that tells of it (ErrNotCoordinator), and
//     groups are as they were before it. After a failed write they stay so. After a failed fsync
//     that partition of the offsets topic takes no more changes until the cluster is opened again,
//     and what is there then is the state without the change or with it, never a half of it: ask
//     before you repeat a relative one (ShiftBy). Only DeleteGroup of a group whose offsets fill
//     several batches can end between two of them; it may be called again.
//   - Heartbeats never wait for a disk.
//   - The rebalance timer of a rebalance never restarts because another member comes or goes.
//   - After a restart of the process, members that lived in it are gone when the Coordinator is
//     there again, so nobody waits for their sessions to end. Members that came over the wire are
//     members still, static or not, as long as they send heartbeats. Offsets are where they were.
//   - A group survives the death of its coordinator: whoever leads its partition of the
//     offsets topic next knows its members, their shares and every commit that was confirmed.
//     A request under way is answered ErrNotCoordinator at that broker (On); calls of this
//     process go on at the next coordinator.
//   - A partition of the offsets topic that has no leader, or cannot be
//     loaded, concerns its own groups only.
//   - RewindGroup moves a group with members too, and no late commit overwrites it.
//
// # Parts
//
// Package protocol has the requests and responses, assignor the assignors and what members and the
// group leader tell each other, offsets the record formats. internal/classic is the protocol as a
// pure state machine, internal/modern the newer one, internal/sharing a share group,
// internal/streaming a streams group, and internal/kinds a group that is of one of them; an
// internal/coordinator runs it over the partitions of the offsets topic: it writes the records and
// holds replies back until these are committed.
//
// # Deviations from Kafka
//
//   - A group without members rebalances at once when the first one joins; Kafka waits 3 s
//     (Config.InitialRebalanceDelay).
//   - Offsets are never forgotten unless Config.OffsetsRetention
//     says so; Kafka forgets after 7 days.
//   - Requests wait while groups are being loaded; Kafka sends clients away.
//   - A failed append makes the partition's groups be loaded again from the
//     log; Kafka undoes the one change.
//   - An equal number of votes for two protocols is decided by the group
//     leader's order; in Kafka by chance.
//   - Kafka's tools refuse to reset a group with members; RewindGroup puts them out.
//   - What a cooperative member owned when it last joined stays its own when its group goes over to
//     the newer protocol, and a classic member that was put out of such a group must join it
//     without partitions. In Kafka the next one can have them before it has heard that it lost
//     them.
//   - In the newer protocol a regular expression is resolved at once, where Kafka does it in the
//     background, and the hash of a group's topics is not Kafka's: a group that comes from there
//     begins one more epoch.
//   - The client host of members in this process is not an address: it begins with "in-process-".
package group
