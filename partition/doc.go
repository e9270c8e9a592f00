// Package partition implements one replica of one partition. It is a log together with the state
// that a broker needs to accept appends of many producers and to serve many readers. Package
// replication runs partitions as a cluster; use package log for a log without producers' state,
// transactions and replication.
//
// # Additions to a log
//
//   - Producer state. A batch of an idempotent producer is written once. A retry of one of the
//     producer's last five batches returns the original offset, a gap is rejected, and an older
//     epoch is fenced. The state survives restarts with all five batches.
//   - Transactions. Open transactions hold back the last stable offset, markers end them, and
//     read-committed readers receive the list of aborted ones.
//   - Watermarks. LogStartOffset <= LastStableOffset <= HighWatermark <= LogEndOffset, always.
//     Under log.SyncOnAck only records on stable storage are readable: a record that was read never
//     disappears.
//   - Waiting. Acknowledgements and readers wait in queues sorted by offset, without polling and
//     without a goroutine per waiter.
//
// # Leadership
//
// A replica accepts appends and reads only while it leads (Lead). It does not decide about
// leadership: the controller sets the leader epoch, the replicas and the ISR.
//
// # Followers
//
// A follower reports the end of its log to its leader, written and on stable storage, and receives
// the records after it (ReadReplica), or the point where the two logs diverge. Then the follower
// truncates its log (Converge), by leader epochs and never by a high watermark. It stores batches
// unchanged (CopyFrom).
//
// The leader's high watermark is the smallest end of the in-sync replicas, under log.SyncOnAck the
// smallest durable one. It does not advance while fewer replicas than required are in sync. The
// leader requests another ISR from the controller when a follower falls behind or has caught up.
// With one replica the high watermark is the leader's own bound. The reasons are in
// docs/explanation/replicas.md.
//
// # No blocking
//
// Produce takes a callback, Read returns the available records, and a Waiter watches many
// partitions at once. AppendSync is a thin wrapper. No lock is held while waiting, so all of it
// runs in a testing/synctest bubble.
//
// # Files
//
// The files are those of package log, and partition.metadata with the topic's id. The producer
// state is in Kafka's .snapshot files. A snapshot is named by the offset at which it ends, and
// written when a segment is closed and by Close:
//
//	version i16 = 1 | CRC-32C u32 of the rest | count i32 | count x 46 bytes:
//	producer id i64 | epoch i16 | last sequence i32 | last offset i64 |
//	    offset delta i32 | timestamp i64 | coordinator epoch i32 | txn first offset i64
//
// A snapshot has one batch per producer; the four batches before it are read from the last 8 MiB of
// the log. A damaged snapshot is replaced by an older one and the log itself.
//
// Differences from Apache Kafka 4.3: the duplicate window survives restarts; a producer id expires
// by the time at which the partition last received a batch of it, not by the timestamps of its
// records; a partition without any snapshot replays its log instead of dropping its producers'
// state.
package partition
