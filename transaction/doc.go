// Package transaction coordinates transactions. For each transactional id it stores the current
// producer, the partitions of the transaction and its outcome, and it writes the transaction
// markers.
//
// Applications use transactions through package producer, on a cluster of package strata, which
// runs a Coordinator. Use this package to inspect transactions, or to build a cluster without
// package strata.
//
// A Coordinator keeps one record for each id in the internal topic __transaction_state, in Kafka's
// format. The leader of a partition of this topic coordinates the ids in it.
// docs/explanation/transactions.md argues why that is right.
//
// # Promises
//
//   - A transaction has one outcome, which is durable when End returns. Its markers are written to
//     each of its partitions that still exists, whichever brokers or clients crash meanwhile.
//   - A producer that was replaced, or exceeded its timeout, can no longer change anything.
//   - The next transaction of an id begins when the previous one has markers in all its partitions.
//     Until then requests return ErrConcurrent: retry them.
//   - A rejected request has changed nothing.
//   - A partition without a leader, below its min.insync.replicas or with a broken disk delays only
//     the transactions that include it.
//
// # Parts
//
// internal/txnlog has the record formats. internal/lifecycle is a pure state machine for each id;
// an internal/coordinator runs it over the partitions of the topic.
package transaction
