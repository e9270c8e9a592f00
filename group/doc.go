// Package group coordinates consumer groups: who is a member, who reads which partition, how far each group has read.
//
// A Coordinator keeps groups and committed offsets in the internal topic __consumer_offsets, in Kafka's formats, and speaks the classic
// group protocol: members join, one of them, the group leader, shares the partitions out with an Assignor, all fetch their part.
//
// # Promises
//
//   - A partition has at most one owner per generation, and generations only grow while the group exists.
//   - A commit is durable when it returns; one from an earlier generation, or by a fenced member, changes nothing.
//   - Heartbeats never wait for a disk.
//   - The rebalance timer of a rebalance never restarts because another member comes or goes.
//   - After a restart members are members still, static or not, as long as they send heartbeats; offsets are where they were.
//
// # Parts
//
// Group is the protocol as a pure state machine: Step(now, Event) decides, Apply(Record) remembers, live and at recovery alike. A
// Coordinator owns one small runtime per partition of the offsets topic, which feeds the groups, writes their records and holds
// replies back until these are committed. Range, RoundRobin, Sticky and CooperativeSticky are Kafka's assignors; package assignortest
// checks others. Subscription, Assignment, Key, OffsetValue and GroupValue are the formats.
//
// # Deviations from Kafka
//
//   - A group without members rebalances at once when the first one joins; Kafka waits 3 s (Config.InitialRebalanceDelay).
//   - Offsets are never forgotten unless Config.OffsetsRetention says so; Kafka forgets after 7 days.
//   - Requests wait while groups are being loaded; Kafka sends clients away.
//   - A failed append makes the partition's groups be loaded again from the log; Kafka undoes the one change.
//   - An equal number of votes for two protocols is decided by the group leader's order; in Kafka by chance.
package group
