// Package follow has the fetchers of a broker: each copies, from one other broker, the partitions
// that this one leads. It knows nothing of metadata: who follows whom it is told.
//
// # How a partition is copied
//
// A Fetcher has a standing set of partitions and one goroutine. A partition of the set is idle
// until its leader has something new (Place.Wake); then it is asked for, and what comes is appended
// to the follower's log, which writes and syncs it while the fetcher goes on with others. When that
// is done the partition is asked for again: this is how the leader learns how far the follower is.
// So an idle partition costs nothing, and a partition whose disk or leader fails holds up no other.
//
// A fetch carries the follower's end and its durable end. Where logs part the follower cuts its own
// by leader epochs, and asks again. What fails is tried again after a while, longer each time, and
// at once if the leader wakes it for another reason than records.
//
// # Compared with Kafka
//
// Kafka's follower has one request under way for each leader and waits for all appends of an answer
// before it asks again. Here each partition has its own turn. A wake stands for the answer to a
// request that was waiting at the leader, so on a slow link it takes one way, and a fetch that says
// something new of the follower takes both. Kafka: AbstractFetcherThread, DelayedFetch.
package follow
