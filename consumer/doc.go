// Package consumer is what applications hold to read: members of consumer groups, and free consumers that go their own way.
//
// # Promises
//
//   - Records of a partition come in offset order; nothing of open or aborted transactions is seen with ReadCommitted, the default.
//   - A partition is not taken away between a record being handed out and the loop coming back for the next one, but for a member that
//     stays away longer than RebalanceTimeout or MaxPollInterval. Its commits are refused then (ErrRebalanced); nothing is overwritten.
//   - CommitProcessed, the default, commits a record only after the loop has come back: at-least-once as long as the work is done in the loop.
//   - Cancelling a context ends a wait at once; an iterator then ends without an error pair.
//
// # How it runs
//
// Fetching happens on the goroutine that polls. A group member has two goroutines besides: one joins, syncs and heartbeats, one sends
// commits. What the first decides takes effect, callbacks included, on the goroutine that polls, between two records.
//
// # Without a consumer
//
// Read yields what a topic holds, to its end; Follow goes on with what comes. They have no group and no position to keep:
//
//	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: "orders"}) { … }
//
// # Three ways to read
//
//	for r, err := range c.Records(ctx) { … }  // one by one
//	b, err := c.Poll(ctx)                     // the classic loop
//	err := c.Run(ctx, handler, RunConfig{})   // a pool of workers, contiguous commits, retries, dead letters
//
// Give a topic enough partitions from the start: adding some later moves keys. One group per application, and no more members
// than partitions: the surplus idles.
package consumer
