// Package compact implements compaction as Kafka's log cleaner does: of the records of a log with
// the same key it keeps only the last. It reads and writes segments. Package log determines which
// segments make up the log, and when a result takes effect.
//
// A Pass with its Limits is run once and returns a Report. Each compacted segment is a Result,
// which the log commits with one replacement of its manifest and then installs. ProducerLast is the
// log's state of a producer.
package compact
