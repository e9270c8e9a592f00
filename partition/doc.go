// Package partition is one replica of one partition: a log together with what a broker must know
// about it to take appends from many producers and show records to many readers.
//
// # What it adds to a log
//
//   - Producer state. A batch of an idempotent producer is written once: a retry of one of the
//     producer's last five batches is answered with the offset it got, a gap is refused, an older
//     epoch is fenced. The state survives restarts with all five batches.
//   - Transactions. Open transactions hold back the last stable offset, markers end them, aborted
//     ones are named to read-committed readers.
//   - Watermarks. LogStartOffset <= LastStableOffset <= HighWatermark <= LogEndOffset, always.
//     Under log.SyncOnAck nothing is readable that is not on stable storage: what a reader has seen
//     never disappears again.
//   - Waiting. Acknowledgements and readers wait in queues sorted by offset: no polling, no
//     goroutine per waiter.
//
// # Who may do what
//
// A replica takes appends and answers reads only while it leads (Lead). It decides nothing about
// that: a controller tells it the leader epoch, the replicas, who of them is in sync.
//
// # Followers
//
// A follower tells its leader how far its log goes, written and on stable storage, and gets what
// comes behind that (ReadReplica), or where their logs part: then it cuts its own (Converge), by
// leader epochs and never by a high watermark. It stores batches as they are (CopyFrom). The
// leader's high watermark is the smallest end of those in sync, under log.SyncOnAck the smallest
// durable one, and stands while fewer are in sync than there must be. The leader asks the
// controller for another in-sync set when a follower falls behind or has caught up. With one
// replica the high watermark is the leader's own bound. What all this rests on is argued in
// docs/design/0005-replicas.md.
//
// # Waiting for nobody
//
// Produce takes a completion, Read returns what is there, a Waiter watches many partitions at once.
// AppendSync is a thin wrapper. No lock is held while waiting, so all of it runs in a
// testing/synctest bubble.
//
// # Files
//
// Those of package log, and partition.metadata with the topic's id. The producer state goes to
// Kafka's .snapshot files (named by the offset they reach to, written when a segment is closed and
// by Close):
//
//	version i16 = 1 | CRC-32C u32 of the rest | count i32 | count x 46 bytes:
//	producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64 | coordinator epoch i32 | txn first offset i64
//
// They hold one batch per producer; the four before are read back from the last 8 MiB of the log. A
// damaged snapshot is replaced by an older one and the log itself.
//
// Where it differs from Apache Kafka 4.3: the duplicate window survives restarts; a producer id
// expires by when it was last heard of and not by the time of its records; a partition without any
// snapshot replays its log instead of forgetting its producers.
package partition
