// Package mirror forwards topics from one cluster to another, each record exactly once, and keeps
// copies of them.
//
// Use it where records are collected on a machine of their own and have to reach a cluster later:
// at the edge, on a ship, in a shop. Either cluster may be in the process (strata.Open) or on a
// network (remote.Open). Within one cluster use consumer.Transform.
//
//	cfg := mirror.ForwardConfig{ID: "ship-7", Topics: []string{"readings"}}
//	f, err := mirror.NewForward(local, central, cfg)
//	err = f.Run(ctx)   // until ctx ends
//	err = f.Drain(ctx) // until all records that existed at the start are forwarded
//
// # Promises
//
//   - Each committed record of the source is in the target once, whatever process, connection or
//     broker fails, for readers of committed records.
//   - Partition, key, value, headers, timestamp and the order in a partition are kept. Offsets are
//     not. Records of open and aborted transactions are not forwarded. Transactions of the source
//     are not kept together: a reader of the target may see a part of one first.
//   - Two mirrors with the same ID never both write. One that starts takes over from one that runs,
//     which ends with ErrFenced at its next transaction. Of several that start within seconds of
//     each other one continues; it need not be the last.
//   - A mirror ends with a *StopError rather than leave out or repeat a record: see the errors. It
//     never begins again by itself.
//
// A target topic belongs to the mirror. If two mirrors forward to each other, their topics need
// other names there (ForwardConfig.Rename): otherwise records go round without end.
//
// # The position
//
// No transaction spans two clusters. The next offset of each source partition is therefore a record
// of the target, in ForwardConfig.PositionTopic, written in the same transaction as the records. A
// mirror that starts acquires its transactional id, which ends the transactions of its predecessor.
// It then reads the last position, and writes it again as its own. A mirror that loses the
// transactional id ends if another one has written the position. Otherwise a late request of its
// own took the id, and it continues.
//
// A committed offset of a group at the target would also be part of the transaction. But offsets of
// groups without members expire, after 7 days at Kafka, and a mirror that was cut off for longer
// would then forward all records again. A compacted topic does not expire, so it is the only place.
//
// For tools, the mirror also commits its position as a group of the source
// (ForwardConfig.Group), every two seconds and after the transaction: "strata groups lag" and
// kafka-consumer-groups show how far it has come. The mirror never reads these offsets.
//
// # Begin
//
// A mirror without a position begins at the first record of each source partition, if the target
// topics are empty. If they are not, the position was lost or the topic is another program's, and
// the mirror ends with ErrNoPosition. ForwardConfig.Start names the offsets to begin at. It applies
// only without a position: to begin again on purpose, use another ID.
//
// # Moving to the target
//
// When the source is to be given up, stop its producers and the members of its groups, call
// Forward.Cutover, and start them at the target. Each group continues with the record that it would
// have read next.
//
// # Retention
//
// Records that the source deletes before they are forwarded are lost: the mirror ends with ErrGap.
// It logs a warning when more than half of retention.ms or retention.bytes has passed. Stats has
// the share.
//
// # A copy
//
// A Copy is the other direction: topics of a cluster on this machine, byte for byte, with the same
// offsets. Consumers read it while the cluster is unreachable. If that is lost, Promote makes a new
// cluster of the copy.
//
//	c, err := mirror.OpenCopy(central, mirror.CopyConfig{Dir: "copy", Topics: []string{"orders"}})
//	go c.Run(ctx)
//	for r, err := range consumer.Follow(ctx, c, consumer.ReadConfig{Topic: "orders"}) { ... }
//
// # Slow links
//
// A transaction has at most the records of one poll. After one that timed out or took more than
// 10 s the next ones are smaller, down to one record, and they grow again when commits are quick. A
// record must reach the target within two minutes, and its request must be written within
// remote.Config's RequestTimeout: raise that for large records on a slow link.
package mirror
