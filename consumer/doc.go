// Package consumer reads records: as a member of a consumer group, or as a free consumer that
// chooses its own partitions and offsets.
//
// Use it in applications, on a cluster of package strata or package replication. Package log reads
// a single log without topics and groups. Read and Follow read a topic without a consumer. A Share
// works on records of a share group as on a queue.
//
// # Exactly once
//
// Transform reads records, writes others, and commits its input offsets in one transaction of a
// producer. Readers of committed records see the output of each input record exactly once. If the
// output goes to a store of the application, keep the offsets there in the same transaction, and
// return them from Config.StartAt.
//
// # Promises
//
//   - Records of a partition arrive in offset order. With ReadCommitted, the default, records of
//     open and aborted transactions are never returned.
//   - A member reads exactly the partitions that its group assigned to it. A partition is not
//     revoked between the delivery of a record and the request for the next one. The exception is a
//     member that does not poll for longer than RebalanceTimeout or MaxPollInterval. Its commits
//     are then rejected (ErrRebalanced), even if the partition has been assigned to it again:
//     commits of other members are never overwritten.
//   - CommitProcessed, the default, commits a record only after the loop has requested the next
//     one. Delivery is at-least-once as long as the work is done in the loop.
//   - A seek is never lost, wherever it is called. The next record handed out, apart from one
//     handed out already, is the one at the new position. This also holds after a rebalance that
//     leaves the partition with this member (see Seek).
//   - A topic is identified by its id, not its name. If a topic is deleted and created again under
//     a running consumer, the new one is read from its first record, whatever Reset is. Offsets of
//     the old topic affect neither the position nor commits of the new one. A topic that was
//     created again while the whole group was away has no committed offsets, so Reset applies.
//   - A partition that cannot be read does not affect other partitions. Its error is returned once,
//     and the others continue without delay.
//   - An error that excludes a retry ends polling if it is of the group, the metadata or a periodic
//     commit: see Retriable. Other failures are retried with pauses of at most a second.
//   - Cancelling a context ends a wait immediately; an iterator then ends without an error. Close
//     is bounded, sends queued commits, waits for a loop body on another goroutine, and may be
//     called from a loop body or callback.
//   - Records may be kept, read-only, since their memory is garbage collected. Only the optional
//     Batch.Release reuses it.
//   - Callbacks never run concurrently with a loop body. With Run, OnRevoked is called when the
//     handlers of the revoked partitions have returned or DrainTimeout has passed; handlers of
//     other partitions continue. When a partition is lost, the contexts of its handlers are
//     cancelled. OnLost and OnAssigned do not wait for these handlers, but later records in the
//     same RunConfig.Order do.
//
// # Goroutines
//
// Fetching happens on the goroutine that polls. A group member has three more goroutines: one
// joins, syncs and sends heartbeats, one watches the topics, one sends commits. A free consumer
// only has the one that watches topics. Their decisions take effect on the goroutine that polls,
// between two records. Callbacks run there too.
//
// # The consumer protocol (KIP-848)
//
// With ProtocolConsumer in Config.Protocol the coordinator assigns the partitions. Its heartbeat
// responses list the partitions that each member gives up or takes over. All promises above hold. A
// moving partition is read again after the next heartbeats of its old and its new owner.
//
// # Mixing members
//
// All members of a group that use the classic protocol need an assignor in common. The default,
// CooperativeSticky, hands partitions over incrementally: only the partitions that move are
// stopped. To join a group whose members have only eager assignors, such as Range, list that one
// too; the member is then eager. Config.Assignors describes a rolling change.
//
// # Three ways to read
//
//	for r, err := range c.Records(ctx) { … }  // one by one
//	b, err := c.Poll(ctx)                     // the classic loop
//	err := c.Run(ctx, handler, RunConfig{})   // workers, contiguous commits, retries, dead letters
//
// # Shutting down
//
// On SIGTERM only cancel the context. Run (or the loop) then ends, after its active handlers,
// within DrainTimeout. Commit the processed records and leave the group under a context that has
// not ended:
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
//	defer stop()
//	err := c.Run(ctx, handler, consumer.RunConfig{DrainTimeout: 20 * time.Second})
//	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
//	defer cancel()
//	return errors.Join(err, c.Shutdown(last))
//
// Set the supervisor's kill timeout (Kubernetes: terminationGracePeriodSeconds) above the sum of
// the two timeouts. Handlers have their own contexts, which do not end with ctx. A handler that
// uses ctx itself fails, and its record is left to the next process, like all records that were not
// processed. With several workers, records behind it may be processed twice. examples/workers shows
// a complete program.
//
// Give a topic enough partitions from the start, since adding partitions moves keys to other ones.
// Use one group per application, and no more members than partitions: additional members are idle.
package consumer
