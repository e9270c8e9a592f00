// Package lifecycle is the transaction coordinator's decisions about one transactional id, as a
// pure state machine: a producer begins, its transactions take up partitions, are committed or
// aborted, are marked everywhere, and the id expires when nobody uses it any more.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A step computes
// what the id is to become and emits it as one record; Apply makes that the state, live and at
// recovery alike. Nothing else is durable, so that what is replayed is what was.
//
// Answers are Kafka 4.3's (TransactionCoordinator, TransactionMetadata), but for these:
//
//   - What waits for the log is no reason for CONCURRENT_TRANSACTIONS. The next request is decided
//     on what the one before it has led to, and is answered when that is committed.
//   - InitProducerId with an epoch that is not the producer's any more does not abort the
//     transaction under way: PRODUCER_FENCED. In Kafka a request that comes late does.
//   - Epoch 32767 is nobody's: who shows it is fenced.
//   - A transaction without partitions is complete at once, in one record.
//   - What a retry of InitProducerId may show is in the record: the next coordinator answers it,
//     too. Kafka's fences the producer.
package lifecycle
