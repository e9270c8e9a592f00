// Package follow implements the fetchers of a broker: each copies, from one other broker, the
// partitions that the other broker leads. It does not use the metadata: its caller sets the
// partitions and their leaders.
//
// # How a partition is copied
//
// A Fetcher has a set of partitions and one goroutine. A partition is idle until its leader has new
// records (Place.Wake). Then the fetcher fetches and appends them to the follower's log, which
// writes and syncs them while the fetcher continues with other partitions. When that is done it
// fetches the partition again: this reports the follower's end to the leader. So an idle partition
// costs nothing, and a partition whose disk or leader fails does not delay others.
//
// A fetch has the follower's end and its durable end. Where the logs diverge, the follower
// truncates its own by leader epochs, and fetches again. A failed fetch is retried after a pause,
// which grows each time. It is retried at once if the leader wakes the partition for another reason
// than records.
//
// # Compared with Kafka
//
// Kafka's follower has one request in progress for each leader, and waits for all appends of a
// response before it fetches again. Here each partition is fetched independently. A wake takes the
// place of the response to a request that waits at the leader. So on a slow link a wake takes one
// way, and a fetch that reports a new position of the follower takes both. Kafka:
// AbstractFetcherThread, DelayedFetch.
package follow
