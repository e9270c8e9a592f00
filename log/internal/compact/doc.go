// Package compact keeps, of the records of a log with the same key, only the last, as Kafka's log
// cleaner does. It reads and writes segments; which segments make up the log, and the moment at
// which a result counts, are package log's.
//
// A Pass with its Limits is run once and gives a Report. Each compacted segment is a Result, which
// the log commits with one replacement of its manifest and then installs. ProducerLast is what the
// log knows of a producer.
package compact
