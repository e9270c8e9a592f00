// Package lifecycle implements the transaction coordinator's state of one transactional id as a
// pure state machine. A producer initializes, adds partitions to its transactions, commits or
// aborts them, their markers are written, and an unused id expires.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A step computes
// the next state of the id and emits it as one record. Apply replaces the state by it, live and at
// recovery. Nothing else is durable.
//
// The replies are those of Kafka 4.3 (TransactionCoordinator, TransactionMetadata), except:
//
//   - A pending log write is no reason for CONCURRENT_TRANSACTIONS. The next request sees the state
//     after it, and its reply waits for the commit.
//   - InitProducerId with an old epoch does not abort the present transaction: it gets
//     PRODUCER_FENCED. In Kafka a late request aborts it.
//   - No producer gets epoch 32767; requests with it are fenced.
//   - A transaction without partitions is complete at once, in one record.
//   - The record has the previous producer id. So the next coordinator also accepts a retry of
//     InitProducerId; Kafka's fences the producer.
package lifecycle
