// Package coordinator runs pure state machines over the partitions of an internal topic: it loads
// them, steps them with requests and the time, writes their records, and replies after these are
// committed.
//
// It is independent of the machines' logic; groups and transactions use it. The names are Kafka's:
// a Runtime has one Shard per led partition (CoordinatorRuntime, CoordinatorShard; KAFKA-14048). A
// Shard belongs to one broker in one leader epoch and ends with it. The next leader's Shard is
// loaded from the log.
//
// # Promises
//
//   - A reply is sent when all records are committed that it may depend on.
//   - A step whose records the log rejects has changed nothing.
//   - After a failed append the partition is loaded again; waiting callers get an error to retry.
//   - A Shard appends in the leader epoch in which it was loaded, or not at all.
//   - Records in a producer's transaction stay pending in their machines until its marker
//     (EndTransaction), across loads and leaders. The Shard orders the marker with its other
//     records.
//   - A partition that has no leader or cannot be loaded does not delay the others.
//   - No lock is held during a wait for a disk, a channel or a callback.
//   - Close returns when the last goroutine and timer have ended.
package coordinator
