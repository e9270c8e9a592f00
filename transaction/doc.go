// Package transaction coordinates transactions: who has a transactional id, which partitions its
// transaction has, what became of it, and that all of them are told.
//
// A Coordinator keeps one record for each id in the internal topic __transaction_state, in Kafka's
// format. The leader of a partition of it is the coordinator of the ids there, which move with it.
// docs/design/0006-transactions.md argues why that is right.
//
// # Promises
//
//   - A transaction has one outcome, which is durable when End returns, and its markers are written
//     to each of its partitions that still exists, whoever dies meanwhile.
//   - A producer that was replaced, or took longer than its timeout, changes nothing any more.
//   - The next transaction of an id begins when the one before is marked everywhere. Until then
//     requests are answered ErrConcurrent: ask again.
//   - A request that is refused has changed nothing.
//   - A partition without a leader, below its min.insync.replicas or with a broken disk holds up
//     the transactions that it is part of, and no others.
//
// # Parts
//
// Package txnlog has the record formats. internal/lifecycle decides, as a pure state machine for
// each id, which an internal/coordinator runs over the partitions of the topic.
package transaction
