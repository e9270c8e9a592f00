package partition

import "sync/atomic"

// counters are the running totals behind Stats.
type counters struct {
	duplicates, refused, reads, bytesOut atomic.Int64
}

// Stats are figures of a partition since it was opened. Each offset is consistent by itself.
type Stats struct {
	LogStartOffset, LastStableOffset, HighWatermark, LogEndOffset int64
	DurableOffset                                                 int64 // everything below is on stable storage

	Stated           bool  // see log.Log.Stated
	LeaderEpoch      int32 // -1 if the replica does not lead
	Producers        int   // producer ids with state
	OpenTransactions int
	AwaitingAcks     int // requests written and not yet acknowledged by the high watermark
	Watchers         int // waits for new records

	AwaitingCoordinator int   // writes that wait for a response of their transaction coordinator
	SizeBytes           int64 // of all batches in the log
	BytesWritten        int64 // of batches, since open
	BytesRead           int64
	Reads               int64
	Duplicates          int64 // batches that were in the log already
	Refused             int64 // produce requests that failed
}

// Stats returns the present figures.
func (p *Partition) Stats() Stats {
	durable := p.log.DurableOffset() // first: it may only be behind
	end := p.log.EndOffset()
	hw, lso, start := p.bounds()
	s := Stats{
		LogStartOffset: start, LastStableOffset: lso, HighWatermark: hw, LogEndOffset: max(end, hw), DurableOffset: durable, Stated: p.log.Stated(), LeaderEpoch: p.leaderEpoch.Load(),
		BytesRead: p.stats.bytesOut.Load(), Reads: p.stats.reads.Load(),
		Duplicates: p.stats.duplicates.Load(), Refused: p.stats.refused.Load(), SizeBytes: p.log.Size(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Producers, s.OpenTransactions, s.BytesWritten = len(p.state.m), len(p.state.txns.open), p.growth.written
	s.AwaitingCoordinator = p.state.awaiting()
	s.AwaitingAcks, s.Watchers = p.acks.Len(), p.hwWatches.Len()+p.lsoWatches.Len()
	return s
}
