package producer

import (
	"sync/atomic"
	"time"
)

// Stats are the counters of a producer since New. They are read one after the other, not at one
// instant.
type Stats struct {
	Acknowledged  int64 // records
	Failed        int64 // records that were accepted and then failed
	Refused       int64 // records that were not accepted
	Batches       int64 // handed to the backend for the first time
	Retries       int64 // batches handed to it again
	Duplicates    int64 // batches that the log had already: a retry after a lost acknowledgement
	Splits        int64 // batches that were too large for the topic and went as smaller ones
	Expired       int64 // batches that DeliveryTimeout ended
	EpochBumps    int64 // new starts of a partition's sequence numbers
	Commits       int64 // transactions that were committed; those in which nothing was sent do not count
	Aborts        int64 // transactions that were aborted, likewise
	Answered      int64 // batches that the backend has answered, each attempt for itself
	BufferedBytes int64 // now
	Blocked       int64 // callers that wait for memory now

	// RequestTime is how long the Answered batches were with the backend, added up. See
	// RequestLatency.
	RequestTime time.Duration
}

// RequestLatency is the mean time from handing a batch to the backend to its answer, 0 before the
// first one: what Config.Acks costs. Kafka: request-latency-avg.
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
