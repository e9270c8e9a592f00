// Package kafkadir takes topics out of the log directories of an Apache Kafka broker, and makes log
// directories that a Kafka broker takes: Import and Export. It works on files, with nobody serving
// them; no record goes through a client.
//
// # Promises
//
//   - Records stay as they are: batches are copied byte for byte, with their offsets, leader
//     epochs, producers, markers of transactions and the gaps that compaction has left. Every
//     batch's CRC is checked on the way.
//   - Nothing in the source of an Import is ever changed: its files are opened for reading only.
//   - What is made is there as a whole or not at all, whenever the process or the machine stops.
//     What is left in the second case, a directory beside it whose name ends in ".unfinished", is
//     removed by the next attempt.
//   - What comes out shares nothing with what went in. Where the file system has reflinks (XFS,
//     Btrfs) segments share their blocks until one of them is written to; elsewhere they are
//     copied. Hard links are not used: both brokers cut closed segments in place when they
//     truncate, so a file with two names would change under the other one.
//   - A broker that runs is found out by its lock, of Kafka or of Strata, and refused; and it
//     cannot start while its directory is read. A directory without a .lock file, as a copy of one,
//     is looked at once more at the end.
//
// # What is missing
//
// A segment that is missing, or the end of one, is an error where something still tells of it: an
// index, which a broker removes after its segment, or one that goes beyond the segment; after a
// stop in order also recovery points, high watermarks, names of producer snapshots and the start of
// the log, and offsets that are missing before a segment if cleaner-offset-checkpoint says that the
// topic was never compacted. Where it can have another cause, it is in Report.Gaps: a power cut or
// a truncation before a kill, compaction of a topic that is not compacted any more or for which
// only server.properties says so, tiered storage, deletions that leader-epoch-checkpoint does not
// know of yet.
//
// Nothing tells of the first segments when their indexes are gone too and no checkpoint has the log
// begin in them, as retention leaves it; of segments in the middle of a compacted topic without
// their indexes, as compaction leaves it; of what a killed broker had not synced, without its
// indexes and above the high watermark that it wrote last; of the end of the metadata's log after a
// kill.
//
// # What comes from Kafka's metadata
//
// A broker of Kafka 3.3 or later without ZooKeeper keeps the metadata of its whole cluster in
// __cluster_metadata-0. Import reads the newest snapshot and the log behind it: topics with their
// ids, configurations (of groups and client metrics, too), users, access control entries, quotas,
// transaction.version, producer ids. A record of another type is left out and counted in
// Report.Skipped. Where several controllers vote, the last records of one broker's copy may not
// have been committed; they are taken for committed. Tests import what brokers of 3.9 and 4.3 have
// left.
//
// The settings of a broker's server.properties are in no log. So a topic that does not say itself
// how long it keeps its records gets retention.ms=-1, which Report tells: its records may be years
// old, and Strata's default of seven days would delete them at once.
package kafkadir
