// Package coordinator runs pure state machines over the partitions of an internal topic: it loads
// them, feeds them requests and the time, writes their records, and sends replies when these are
// committed.
//
// It knows nothing of what the machines decide: groups are run by it, transactions are to be. The
// names are Kafka's: a Runtime has one Shard per partition that is led (CoordinatorRuntime,
// CoordinatorShard; KAFKA-14048). A Shard belongs to one broker in one leader epoch; when that is
// over, it ends, and the next leader's is loaded from the log.
//
// # Promises
//
//   - A reply is sent when all records that it may have seen are committed.
//   - A step whose records the log does not take has changed nothing.
//   - A failed append makes the partition be loaded again; who waits is told to retry.
//   - A Shard appends in the leader epoch that it was loaded in, or not at all.
//   - Records in the transaction of a producer wait in their machines for its marker
//     (EndTransaction), over loads and leaders; it is a record of the Shard in its order.
//   - A partition without a leader, or one that cannot be loaded, does not hold up the others.
//   - No lock is held while a disk, a channel or a callback is waited for.
//   - Close returns when the last goroutine and timer have ended.
package coordinator
