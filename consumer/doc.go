// Package consumer is what applications hold to read: members of consumer groups, and free
// consumers that go their own way.
//
// # Exactly once
//
// Transform reads records, writes others and commits what it has read in one transaction of a
// producer: each record counts once in what readers of committed records see. Where the output is
// a store of the application's own, keep the offsets there, in the same transaction, and give them
// back by Config.StartAt.
//
// # Promises
//
//   - Records of a partition come in offset order; nothing of open or aborted transactions is seen
//     with ReadCommitted, the default.
//   - A member holds exactly what its group gave it. A partition is not taken away between a record
//     being handed out and the loop coming back for the next one, but for a member that stays away
//     longer than RebalanceTimeout or MaxPollInterval. Its commits are refused then
//     (ErrRebalanced), also when the partition has come back to it since: nothing that others
//     committed is overwritten.
//   - CommitProcessed, the default, commits a record only after the loop has come back:
//     at-least-once as long as the work is done in the loop.
//   - A seek is never lost, wherever it is called from: the next record handed out that was not in
//     hand already is the one sought to, also after a rebalance that leaves the partition with this
//     member (see Seek).
//   - A topic is its id, not its name: one that is deleted and created again under a consumer is
//     read from its first record, whatever Reset says, and offsets of the old one reach neither its
//     position nor its commit. One that was created again while the whole group was away is a topic
//     without offsets: Reset says where it is read from.
//   - A partition that cannot be read is its own business: its error is told once, and the others
//     go on without delay.
//   - Cancelling a context ends a wait at once; an iterator then ends without an error pair. Close
//     is bounded, sends what was queued, waits for a loop body at work on another goroutine, and
//     may be called from a body or callback.
//   - Records may be kept, read-only: their memory is garbage collected. Only Batch.Release, which
//     nobody has to call, has it used again.
//   - Callbacks run beside no loop body. With Run, OnRevoked comes when the handlers of the
//     partitions it names have returned or DrainTimeout is over; those of other partitions go on.
//     Handlers at work in a partition that is lost learn it from their contexts: OnLost and
//     OnAssigned do not wait for them, but the records behind them in RunConfig.Order do.
//
// # How it runs
//
// Fetching happens on the goroutine that polls. A group member has three goroutines besides: one
// joins, syncs and heartbeats, one watches the topics, one sends commits; a free consumer has the
// watching one. What they decide takes effect, callbacks included, on the goroutine that polls,
// between two records.
//
// # The newer protocol
//
// With Config.Protocol ProtocolConsumer (KIP-848) the coordinator shares the partitions out, and
// tells each member in the answers to its heartbeats what to give up and what to take: all the
// promises above hold. A partition that moves is read on after its owner's next heartbeat and its
// next owner's.
//
// # Mixing members
//
// All members of a group that speak the classic protocol need an assignor in common.
// CooperativeSticky, the default, hands partitions over incrementally: only what moves is stopped.
// To join a group whose members know only eager assignors, such as Range, name that one too; the
// member is eager then. See Config.Assignors for a rolling change.
//
// # Three ways to read
//
//	for r, err := range c.Records(ctx) { … }  // one by one
//	b, err := c.Poll(ctx)                     // the classic loop
//	err := c.Run(ctx, handler, RunConfig{})   // workers, contiguous commits, retries, dead letters
//
// # Shutting down
//
// SIGTERM ends the context and nothing else. Run (or the loop) then ends; handlers at work finish
// first, within DrainTimeout. What is done is committed, and the group left, under a context that
// has not ended:
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
//	defer stop()
//	err := c.Run(ctx, handler, consumer.RunConfig{DrainTimeout: 20 * time.Second})
//	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
//	defer cancel()
//	return errors.Join(err, c.Shutdown(last))
//
// Leave the supervisor's kill timeout (Kubernetes: terminationGracePeriodSeconds) above the sum of
// the two. Handlers get contexts of their own, which do not end with ctx: one that looks at ctx
// itself fails, and its record is left to the next process, as are all that were not done. With
// workers those behind them may be repeated. examples/workers shows it.
//
// Give a topic enough partitions from the start: adding some later moves keys. One group per
// application, and no more members than partitions: the surplus idles.
package consumer
