// Package replication implements the brokers of a cluster in one process. It keeps topics and
// partitions, routes produce and fetch requests to leaders, replicates partitions, and holds the
// cluster's metadata in the controller's log. Use it for topics without consumer groups and
// transactions; package strata adds both. Package partition is one replica without a cluster, and
// package log is one log without producers' state. The design is in docs/explanation/replicas.md.
//
// A broker is a directory, possibly on a disk of its own. A node (type node) is one incarnation of
// a broker, from its start to its stop. The Cluster routes each call to the node that leads the
// partition; applications, producers and consumers use the Cluster. How brokers start and stop is
// described in docs/explanation/brokers.md.
//
// # Promises
//
//   - A change of the metadata is on stable storage when its call returns: a topic created, grown,
//     altered or deleted, or a block of producer ids. Each change is one batch of the controller's
//     log. After a crash it has happened completely or not at all, and Open completes its effects
//     on files.
//   - A partition's directory belongs to a topic id. Files of a deleted topic are never used for a
//     new topic of the same name.
//   - No producer id is handed out twice.
//   - Partitions on a broker that is not running have no leader, unless another replica can lead.
//     All other partitions serve. The broker returns with all its data. The directory of another
//     broker or another cluster is rejected, and an emptied directory does not count as the
//     broker's.
//   - The loss of one disk, or of any fewer than half of the disks, loses no metadata. Every broker
//     keeps a copy, and a change is made when it is durable on all copies that are in sync. A
//     broker whose copy fails is fenced; if it was the controller, another broker takes over.
//   - A record that all in-sync replicas acknowledged (acks=all) survives the loss of any
//     min.insync.replicas - 1 brokers at any instant. It also survives a power failure of all
//     brokers at once if the topic's sync policy promises stable storage, which is the default. If
//     the leader is lost, another in-sync replica leads. If there is none, the partition has no
//     leader, unless the topic allows an unclean election.
//   - Brokers are stopped, killed and started while the cluster runs, the controller too. A write
//     that a killed broker had not acknowledged is never acknowledged, and none of the broker's
//     later writes reaches its disk.
//   - A disk that fails, at open or later, affects only its broker. Data that only a lost disk had
//     is given up only on request (RemoveLostBroker).
//   - A damaged partition is offline, with the reason in its calls' errors; all others serve.
//   - No goroutine polls, and no partition has a goroutine: 10,000 idle partitions cost memory
//     only.
//
// # Known gaps
//
//   - A partition stays offline while its broker runs if its disk failed once when it was opened
//     or began its epoch. Its calls return the disk's error. Stopping and starting the broker
//     opens it with recovery. Opening it at the next call would not be enough: recovery may find
//     less than readers have seen, and only a new leader epoch lets them notice (KIP-320). Kafka
//     takes the whole log directory offline (KIP-112).
//   - Of two brokers one is killed and the other's disk has failed once. Neither is a majority, so
//     the metadata cannot change until the killed broker starts, as after a restart with one disk.
//     A third broker that was fenced before is in no set that may be in force and does not help.
//   - Brokers that are killed one after the other while the metadata cannot change are missing for
//     every majority. An open with all disks ends that.
//   - A hung disk is waited for by calls that read it (Fetch, Backup, ListOffsets of a View, with
//     any context), by KillBroker of another broker whose majority it belongs to, and by its
//     broker's start and stop.
//   - A replica that was away during DeleteRecords, and leads later, shows the deleted records
//     again, as in Kafka.
//   - Retention at a leader that is cut off and not yet fenced may remove the beginning of an open
//     transaction. A follower with other segments leads then, and log start and last stable offset
//     move back. No wrong record is shown.
//   - A partition of one replica gets more replicas while its broker is down. Its next election is
//     reported as unclean although nothing is lost, because the metadata has the durable mark for
//     partitions of several replicas only.
//   - Damage inside a copy of the metadata that no controller uses is found when that copy is the
//     newest, or its broker starts again.
//   - A single partition's directory that was removed by hand, without a line in
//     strata.partitions, looks like a partition that was never written.
//
// # Files
//
// In the directory of broker 1, dir/broker-1:
//
//	meta.properties                Kafka's file; its first line has our format and a checksum
//	__cluster_metadata-0/          a copy of the controller's log, in Kafka's metadata records
//	strata.epoch                   a controller epoch that started here and was interrupted; rare
//	<topic>-<partition>/           a partition, created at its first write
//	<name>.<32 hex digits>-delete  to be deleted, at the latest by the next open
//	<name>.<32 hex digits>-stray   belonged to no topic when the cluster was opened; never changed
//	strata.partitions              which logs the broker has, see docs/format/evidence.md
//	strata.reserve                 space that lets a full disk heal
//	strata.unfinished              only while Backup writes to the directory; Open rejects it
package replication
