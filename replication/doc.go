// Package replication runs the broker half of a cluster in one process: it keeps topics and
// partitions, routes produce and fetch requests to leaders, and holds the cluster's metadata in the
// controller's log. A partition has one replica or several; one of them leads, the others copy from
// it (docs/design/0005-replicas.md).
//
// A broker is a directory, perhaps on a disk of its own. A node (type node) is one incarnation of
// it, from its start to its stop. The Cluster routes each call to the node that leads the
// partition, and is what applications, producers and consumers see. How brokers come and go:
// docs/design/0004-brokers.md.
//
// # Promises
//
//   - A change of metadata (a topic created, grown, altered, deleted; a block of producer ids) is
//     on stable storage when the call returns. Each is one batch of the controller's log: after a
//     crash it has happened wholly or not at all, and Open finishes what it implies for files.
//   - A partition's directory belongs to a topic id. What a deleted topic left behind is never
//     taken for a new topic of the same name.
//   - Producer ids are never handed out twice.
//   - The partitions of a broker that is not there have no leader, and those of others serve. It
//     comes back with all it had. A directory that is another broker's, or another cluster's, is
//     refused; one that has come back empty is not taken for the broker's.
//   - The loss of one disk, or of any fewer than half of them, loses no metadata: every broker
//     keeps a copy, and a change is made when it is durable on all that are in sync. A broker whose
//     copy fails is fenced, and another one is controller if need be.
//   - What was acknowledged by all in sync (acks=all) survives the loss of any min.insync.replicas
//     less one brokers at any instant, and of the power of all of them at once if the topic's sync
//     policy promises stable storage, which is the default. Another replica in sync leads when the
//     leader is gone; without one nobody does, unless the topic allows an unclean election.
//   - Brokers are stopped, killed and started while the cluster runs, the controller among them.
//     What a killed broker has not acknowledged by then is never acknowledged, and nothing that it
//     does reaches its disk afterwards.
//   - A disk that fails, while the cluster opens or later, costs its broker and nothing else. What
//     only a lost disk had is given up when somebody says so (RemoveLostBroker), and never before.
//   - A damaged partition is offline, with the reason in its calls' errors; all others serve.
//   - Nothing polls and no partition has a goroutine: 10,000 idle partitions cost memory only.
//
// # Files
//
// In the directory of broker 1, dir/broker-1:
//
//	meta.properties                Kafka's file; its first line has our format and a checksum
//	__cluster_metadata-0/          a copy of the controller's log, in Kafka's metadata records
//	strata.epoch                   a controller's epoch that began here and was cut; seldom there
//	<topic>-<partition>/           a partition, made when it is first written
//	<name>.<32 hex digits>-delete  being deleted; goes at the next open at the latest
//	<name>.<32 hex digits>-stray   belonged to no topic at some open; never touched again
//	strata.unfinished              only while Backup writes to the directory; Open refuses it
package replication
