// Package log is an append-only log of records in Kafka's own files: segments that are written,
// rolled, read, compacted, removed, and recovered after a crash.
//
// # Promises
//
//   - An append that returned under SyncOnAck, the zero Config, survives power loss. Appends that
//     wait at the same time share one write and one sync.
//   - Under SyncInterval and SyncNever it survives a killed process.
//   - What was read is never gone afterwards: under SyncOnAck records are read once they are on
//     stable storage.
//   - A failed write is cut back, and the log goes on when the disk does. A failed sync is final
//     for the log until it is opened again: it can be read, and every append returns that error;
//     other logs of the directory go on.
//   - Open cuts what a crash can have torn, and reports it (Recovery). Anything else that is not
//     what was written is a *CorruptError with file and position.
//   - A log has one owner, whatever its directory is called by and whoever else runs; OpenReadOnly
//     needs no ownership and changes nothing.
//   - Offsets grow by one from record to record, are never reused, and no API changes a record.
//
// # Files
//
// A log is a directory, as Kafka lays out a partition:
//
//	00000000000000000000.log .index .timeindex .txnindex   one segment, named by its base offset
//	00000000000000000000.snapshot                          the owner's state as of that offset
//	leader-epoch-checkpoint                                where each leader epoch began
//	strata.state                                           ours: start, recovery point, how the log was left
//	.lock                                                  of a log used alone; else in the directory above (Directory)
//	../strata.journal                                      ours, of a Directory: while several busy logs share their syncs, and after a crash until it is opened
//
// # Use
//
// Open gives a log that is used alone, as a write-ahead log or a queue; examples/wal is a program
// that does. A broker opens a Directory and many logs in it: they share a syncer, descriptors and a
// lock. What else a broker's partition needs plugs in as an Owner.
//
// All methods of all types are safe for concurrent use. An idle log has no goroutine, no timer and
// no open file.
package log
