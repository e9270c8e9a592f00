// Package kafkadir converts between the log directories of Apache Kafka brokers and the directory
// of a Strata cluster: Import and Export. Check reports the differences that users will notice
// after an Export. The package works on files, while no broker serves them; no record goes through
// a client. Use it to move stopped brokers' topics; to copy topics between running clusters, use
// the clients of any Kafka.
//
// # Promises
//
//   - Records do not change: batches are copied byte for byte, with their offsets, leader epochs,
//     producers, transaction markers and the gaps that compaction has left. The CRC of every batch
//     is verified.
//   - Damage is an error. The exception is an incomplete last batch after a kill, which is cut and
//     listed in Report.Cut. Kafka would also cut the batches after a damaged one.
//   - The new directory is another disk of the same cluster: it has Kafka's cluster.id and its own
//     directory.id. New producer ids and leader epochs are above all that the source has.
//   - The source of an Import is never changed: its files are opened for reading only.
//   - The result is complete or does not exist, whenever the process or the machine stops. An
//     incomplete result is a directory beside it whose name ends in ".unfinished", which the next
//     attempt removes.
//   - The result shares nothing with the source. On file systems with reflinks (XFS, Btrfs)
//     segments share their blocks until one of them is written to; elsewhere they are copied. Hard
//     links are not used: both brokers cut closed segments in place when they truncate, so a file
//     with two names would change under the other broker.
//   - A running broker, of Kafka or of Strata, is detected by its lock and rejected, and no broker
//     can start while its directory is read. A directory without a .lock file, such as a copy of
//     one, is checked again at the end.
//
// # Missing data
//
// A missing segment, or a missing end of a segment, is an error if other files prove it. Such proof
// is an index without its segment, since a broker removes the index last, or an index that goes
// beyond its segment. After a clean shutdown, recovery points, high watermarks, the names of
// producer snapshots and the log start are proof too. So are missing offsets before a segment, if
// cleaner-offset-checkpoint shows that the topic was never compacted.
//
// Missing data that can have another cause is in Report.Gaps. Such causes are: a power failure or a
// truncation before a kill; compaction of a topic that is not compacted any more, or that only
// server.properties compacts; tiered storage; and deletions that leader-epoch-checkpoint does not
// have yet.
//
// Some missing data cannot be detected:
//
//   - the first segments, if their indexes are missing too and no checkpoint has the log start in
//     them: retention leaves the same files;
//   - segments in the middle of a compacted topic, if their indexes are missing too: compaction
//     leaves the same files;
//   - data that a killed broker had not synced, without its indexes and above the high watermark
//     that it wrote last;
//   - the end of the metadata log after a kill.
//
// # Kafka's metadata
//
// A broker of Kafka 3.3 or later without ZooKeeper keeps the metadata of its whole cluster in
// __cluster_metadata-0. Import reads the newest snapshot and the log after it: topics with their
// ids, configurations (of groups and client metrics, too), users, access control entries, quotas,
// transaction.version, and producer ids. A record of another type is left out and counted in
// Report.Skipped. With several voting controllers, the last records of one broker's copy may not
// have been committed; Import treats them as committed. Tests import the directories of brokers of
// 3.9 and 4.3.
//
// The settings in a broker's server.properties are in no log. So a topic without a retention of its
// own gets retention.ms=-1, which Report shows. Its records may be years old, and Strata's default
// of seven days would delete them at once.
package kafkadir
