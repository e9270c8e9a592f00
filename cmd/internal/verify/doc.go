// Package verify checks the files of logs, of Strata and of Apache Kafka, without
// opening a log and without changing anything.
//
// # What is checked
//
//   - Segments: every batch's CRC; that offsets grow, within the segment and from one to the next,
//     and lie inside it; leader epochs against leader-epoch-checkpoint; that records can be read
//     and are as many, with such offsets, as the header says.
//   - Indexes: sizes, order; every entry against the batch it names; timestamps against those of
//     the batches; aborted transactions against the markers in the log, both ways.
//   - Snapshots, checkpoints, partition.metadata, meta.properties, strata.state: checksums where
//     there are some, form, and what they say about offsets and segments against the segments.
//     Topic ids against the controller's log.
//
// # Damage and notes
//
// Damage is what no crash explains. A note tells what is unusual but harmless: an incomplete last
// batch that the next open cuts, an index that is missing and will be built anew. What a compacted
// log lacks cannot be told from what compaction removed.
//
// A directory that is being written to can be checked too, as indexes and checkpoints are
// read before the segments that they speak of; but what a broker removes or renames
// meanwhile may be reported as missing.
package verify
