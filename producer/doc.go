// Package producer writes records to topics: it chooses the partition, collects records into
// batches, sends them, and retries until they are written.
//
// Use it to write to a cluster of package strata or package replication. To append to a single log
// without topics, use package log.
//
// # Pipeline
//
// A record passes these steps. It is serialised (Typed). Its partition is chosen, by Record.To if
// set, else by Config.Partitioner. It is encoded once, at the end of the partition's open batch.
// The batch is then sent to the Backend. From then on the bytes of the batch do not change, with
// one exception: producer id, epoch and sequence are rewritten when the producer starts a new
// epoch.
//
// A record without a timestamp gets the current time in milliseconds. While batches fill within a
// few milliseconds, that time comes from a timer with a period of one millisecond. It may be up to
// that much early, or more on a machine whose timers are late.
//
// # When a batch is sent
//
// With Linger 0, the default, a record for an idle partition is sent immediately: by Send on the
// caller's goroutine, by SendAsync on the producer's. While batches of the partition are in flight,
// records are collected. A full batch is sent when fewer than MaxInFlight are in flight, a partial
// one when none is. Batches are thus as large as the load makes them, without a delay under low
// load. While MaxInFlight are in flight to a leader whose responses take 2 ms or more, the next
// batch grows beyond BatchBytes, up to 1 MiB. With Linger an open batch waits that long for more
// records, unless it becomes full, or Flush, Shutdown or lack of memory sends it earlier.
//
// While batches fill within a few milliseconds, a record of SendAsync for an idle partition waits
// until its batch is full, at most for the next tick of that timer. Otherwise a sender that is
// faster than the callers would send many batches of few records, each at the cost of a large one.
// A record of Send never waits.
//
// # Promises
//
//	Config                                         a record is in the log            order
//	{}                                             exactly once                      kept
//	{NoIdempotence: true}                          at least once                     kept [1]
//	{NoIdempotence: true, Retries: NoRetries}      at most once, failures reported   kept
//	{Acks: record.AcksLeader}                      at least once; may be lost with its leader
//	{Acks: record.AcksNone}                        at most once, nothing reported
//	{TransactionalID: "x"}                         with its whole transaction, or never visible
//
// [1] except for duplicates
//
// "Order" is the order of one goroutine's calls, per partition. Exactly once applies to
// acknowledged records of this producer. A record that failed with ErrTimeout, ErrClosed or a disk
// error may or may not be in the log; it is there at most once, and before records that were sent
// after it. Between two producers the only promise is that all readers see the same order.
//
// Weaker Acks and NoRetries disable idempotence. Without idempotence a retried batch keeps its
// order only if no other one is in flight, which is then the default; Config.MaxInFlight raises the
// limit.
//
// # Transactions
//
// A producer with a Config.TransactionalID sends in transactions. Readers of committed records see
// all writes of a transaction, to any partitions and to the offsets of groups, or none.
//
//	p, err := producer.New(c, producer.Config{TransactionalID: "transfers"})
//	err = p.Transact(ctx, func(tx *producer.Txn) error {
//		return tx.Send(ctx, debit, credit)
//	})
//
// Begin, Txn.Commit and Txn.Abort are the long form. Only one transaction is open at a time; its
// methods may be called from several goroutines. It ends in one of four ways:
//
//	Commit returned nil        committed durably; readers see it a moment later
//	an ErrAbortable            not committed, and never will be: Abort, Begin, and repeat the work
//	an ErrFatal                likewise, and another producer has the id (ErrFenced): Close
//	an ErrOutcomeUnknown       ctx ended during the request: call Commit (or Abort) again
//
// Transact aborts by itself. A transaction that a process leaves open when it crashes is aborted
// when its successor starts (InitTransactions), or when Config.TransactionTimeout has passed.
//
// With transaction.version 2, a cluster's default, each transaction has its own epoch, so that a
// late request cannot reach the next transaction (KIP-890). In a cluster with an older version the
// producer adds each partition to the transaction before it writes there, and a producer whose
// transaction exceeds its timeout is fenced.
//
// # Topics that change
//
// A record for a topic or partition that does not exist fails immediately with ErrUnknownTopic,
// unless Config.AllowUnknownTopics is set. In one process a Send that begins after CreateTopic,
// AddPartitions or DeleteTopic has returned observes the change.
//
// Records buffered for a deleted topic fail immediately. If the topic was created again before the
// producer noticed, and has as many partitions as before, the new topic gets the records, in order.
// Otherwise they fail with a RecreatedError, because their keys may belong to other partitions. A
// batch in flight is never written to another topic of the same name.
//
// # Bytes
//
// Key, value and headers are copied before Send waits and before SendAsync returns: the caller may
// reuse them. The callback of SendAsync gets the record it was called with, plus partition, offset
// and timestamp; the caller owns its slices.
//
// # Goroutines
//
// A Producer runs one goroutine that sends, lingers and retries. Another one follows the metadata
// from the first topic on. A third one rarely runs to get a new producer id. There are none per
// partition. Ending a transaction takes another one until the outcome is known. No lock is held
// during a wait, so a Producer runs in a testing/synctest bubble.
package producer
