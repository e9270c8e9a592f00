// Package log implements an append-only log of records in Kafka's own files. It writes, rolls,
// reads, compacts and removes segments, and recovers them after a crash. Use it as a write-ahead
// log, an audit log or a queue in one process. Package partition adds producers' state,
// transactions and replication to it.
//
// # Promises
//
//   - An append that returned under SyncOnAck, the zero Config, survives power loss. Appends that
//     wait at the same time share one write and one sync.
//   - Under SyncInterval and SyncNever it survives a killed process.
//   - Under SyncOnAck a record that was read never disappears: only records on stable storage are
//     read.
//   - A failed write is cut back, and appends succeed again when the disk works again. A failed
//     sync is final until the log is opened again: the log can be read, and every append returns
//     the error of the sync. Other logs of the directory are not affected.
//   - Open truncates only an end that a crash can have torn, and reports it (Recovery). Any other
//     invalid byte is a *CorruptError with file and position.
//   - A log has one owner, under whatever path and in whatever process. OpenReadOnly needs no
//     ownership and changes nothing.
//   - Offsets grow by one from record to record and are never reused. No method changes a record.
//
// # Files
//
// A log is a directory, in Kafka's layout of a partition:
//
//	00000000000000000000.log       one segment, named by its base offset; with it
//	                               .index, .timeindex and .txnindex
//	00000000000000000000.snapshot  the owner's state as of that offset
//	leader-epoch-checkpoint        the start offset of each leader epoch
//	strata.state                   ours: start, recovery point, whether Close was the last call
//	.lock                          of a log used alone; else in the directory above (Directory)
//	../strata.journal              ours, of a Directory: while several busy logs share their syncs,
//	                               and after a crash until it is opened
//
// # Use
//
// Open opens a log that is used alone, as a write-ahead log or a queue; examples/wal is an example.
// A broker opens a Directory and many logs in it, which share a syncer, descriptors and a lock. An
// Owner adds the other parts of a broker's partition.
//
// All methods of all types are safe for concurrent use. An idle log has no goroutine, no timer and
// no open file.
package log
