// Package producer writes records to a log: it chooses the partition, collects records into
// batches, sends them and retries until they are there.
//
// # Pipeline
//
// A record is serialised (Typed), its partition is chosen (Config.Partitioner; Record.To wins over
// any), it is encoded once, at the end of the open batch of its partition, and the batch is handed
// to the Backend. The bytes of a batch never change from then on, whatever happens to it, except
// that its producer id, epoch and sequence are written again when the producer starts a new epoch.
//
// A record without a timestamp gets the present time, in milliseconds. While batches fill up within
// a few milliseconds that is the time at the last beat of a timer that beats every millisecond: up
// to that much early, more on a machine that is late with its timers.
//
// # When a batch is sent
//
// With Linger 0, the default, a record that finds its partition idle is sent at once: by Send on
// the caller's own goroutine, by SendAsync on the producer's. While batches of the partition are in
// flight records are collected; a full batch is sent as soon as fewer than MaxInFlight are in
// flight, one that is not full when none is. So batches are as large as the load makes them,
// without a delay when there is none. With Linger an open batch waits that long for company, unless
// it is full, or Flush, Shutdown or want of memory hurry it.
//
// While batches fill up within a few milliseconds by themselves, a record of SendAsync that finds
// its partition idle waits until its batch is full, at most for the next beat of that timer: a
// sender that is faster than those who send would write a few records at a time, each time at the
// price of many. A record of Send never waits.
//
// # Promises
//
//	Config                                         a record is in the log            order
//	{}                                             exactly once                      kept
//	{NoIdempotence: true}                          at least once                     kept, doubles aside
//	{NoIdempotence: true, Retries: NoRetries}      at most once, failures reported   kept
//	{Acks: record.AcksLeader}                      at least once; may go with its leader
//	{Acks: record.AcksNone}                        at most once, nothing reported
//	{TransactionalID: "x"}                         with all of its transaction, or not seen at all
//
// "Order" is that of the calls of one goroutine, per partition. Exactly once is meant for a record
// that was acknowledged, by this producer: one that failed with ErrTimeout, ErrClosed or an error
// of the disk may be in the log or not, and is there at most once; what was sent after it is not
// sent before it. Between two producers nothing is promised but that every reader sees the same
// order.
//
// Weaker Acks and NoRetries switch idempotence off. Without idempotence a batch that is tried again
// overtakes nothing only as long as there is one in flight, which is the default then;
// Config.MaxInFlight raises it.
//
// # Transactions
//
// A producer with a Config.TransactionalID sends in transactions: what it writes in one, to any
// partitions and to the offsets of groups, is seen by readers of committed records as a whole, or
// never.
//
//	p, err := producer.New(c, producer.Config{TransactionalID: "transfers"})
//	err = p.Transact(ctx, func(tx *producer.Txn) error {
//		return tx.Send(ctx, debit, credit)
//	})
//
// Begin, Txn.Commit and Txn.Abort are the long form. One transaction is open at a time; its methods
// may be called from several goroutines. It ends in one of four ways:
//
//	Commit returned nil        it is committed, durably; readers see it a moment later
//	an error is ErrAbortable   it is not, and will not be: Abort, then begin anew with the same work
//	an error is ErrFatal       likewise, and another producer has the id (ErrFenced): Close
//	it is ErrOutcomeUnknown    ctx has ended while it was asked for: call Commit (or Abort) again
//
// Transact aborts by itself. Whatever a producer leaves open when its process dies is aborted when
// its successor begins (InitTransactions), or when Config.TransactionTimeout is over.
//
// With transaction.version 2, the default of a cluster, each transaction has an epoch of its own,
// so that nothing late gets into the next one (KIP-890). In a cluster that was set to an older
// version the producer adds each partition to the transaction before it writes there, and one that
// takes longer than its timeout is fenced.
//
// # Topics that change
//
// A record for a topic or partition that does not exist fails at once with ErrUnknownTopic, unless
// Config.AllowUnknownTopics says that it may come later. In one process a Send that begins after
// CreateTopic, AddPartitions or DeleteTopic has returned goes by the change. What is buffered for a
// topic that is deleted fails at once. If nobody noticed it gone and it has as many partitions as
// before, its successor gets the records, in order; else they fail with a RecreatedError, because
// their keys may belong elsewhere. A batch on its way never gets into another topic of the name.
//
// # Bytes
//
// Key, value and headers are copied before Send waits and before SendAsync returns: the caller may
// use them again. The callback of SendAsync gets the record as it was given, with partition, offset
// and timestamp filled in; its slices are the caller's.
//
// # Goroutines
//
// A Producer runs one goroutine that sends, lingers and retries, one that follows the metadata from
// the first topic on, and rarely one that gets a new producer id: none per partition. Ending a
// transaction takes one until the outcome is known. No lock is held while anything waits, so a
// Producer runs in a testing/synctest bubble.
package producer
