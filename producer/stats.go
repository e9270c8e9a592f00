package producer

import (
	"sync/atomic"
	"time"
)

// Stats are the counters of a producer since New. They are read one after the other, not
// atomically.
type Stats struct {
	Acknowledged  int64 // records
	Failed        int64 // records that failed after they were accepted
	Refused       int64 // records that were not accepted
	Batches       int64 // sent to the backend for the first time
	Retries       int64 // batches sent to the backend again
	Duplicates    int64 // retried batches that were already in the log: their acknowledgement was lost
	Splits        int64 // batches that were too large for the topic and were split
	Expired       int64 // batches that failed at DeliveryTimeout
	EpochBumps    int64 // restarts of a partition's sequence numbers in a new epoch
	Commits       int64 // committed transactions, without empty ones
	Aborts        int64 // aborted transactions, without empty ones
	Answered      int64 // responses of the backend to batches, one per attempt
	BufferedBytes int64 // bytes buffered now
	Blocked       int64 // callers waiting for memory now

	// RequestTime is the total time that the Answered batches spent in the backend. See
	// RequestLatency.
	RequestTime time.Duration
}

// RequestLatency is the mean time from sending a batch to the backend to its response: the cost of
// Config.Acks. It is 0 before the first response. Kafka: request-latency-avg.
func (s Stats) RequestLatency() time.Duration {
	if s.Answered == 0 {
		return 0
	}
	return s.RequestTime / time.Duration(s.Answered)
}

type counters struct {
	acknowledged, failed, refused, batches, retries, duplicates, splits, expired, bumps, commits, aborts atomic.Int64
	// requestTime in nanoseconds
	answered, requestTime atomic.Int64
}

// Stats returns the counters.
func (p *Producer) Stats() Stats {
	c := &p.stats
	return Stats{
		Acknowledged: c.acknowledged.Load(), Failed: c.failed.Load(), Refused: c.refused.Load(), Batches: c.batches.Load(),
		Retries: c.retries.Load(), Duplicates: c.duplicates.Load(), Splits: c.splits.Load(), Expired: c.expired.Load(), EpochBumps: c.bumps.Load(),
		Commits: c.commits.Load(), Aborts: c.aborts.Load(),
		Answered: c.answered.Load(), RequestTime: time.Duration(c.requestTime.Load()),
		BufferedBytes: p.memory.used.Load(), Blocked: int64(p.memory.waiting.Load()),
	}
}
