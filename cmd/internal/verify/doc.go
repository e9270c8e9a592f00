// Package verify checks the files of logs, of Strata and of Apache Kafka, without
// opening a log and without changing anything.
//
// # Checks
//
//   - Segments: every batch's CRC; that offsets grow, within the segment and from one to the next,
//     and lie inside it; leader epochs against leader-epoch-checkpoint; that records are readable
//     and match the number and offsets in the header.
//   - Indexes: sizes, order; every entry against its batch; timestamps against the timestamps of
//     batches; aborted transactions against the markers in the log, both ways.
//   - Snapshots, checkpoints, partition.metadata, meta.properties, strata.state: checksums if they
//     have one, form, and their offsets and segments against the segments. Topic ids against the
//     controller's log.
//
// # Damage and notes
//
// Damage is a state that no crash can cause. A note is about an unusual but harmless state: an
// incomplete last batch that the next open truncates, a missing index that it rebuilds. Lost
// records of a compacted log cannot be distinguished from records that compaction removed.
//
// A directory in use can be checked too, as indexes and checkpoints are read before their segments;
// but files that a broker removes or renames meanwhile may be reported as missing.
package verify
