package group

import "sync/atomic"

// Stats are the counters of a Coordinator.
type Stats struct {
	Groups, Members int   // now, in the partitions that are loaded
	Rebalances      int64 // generations begun since the start
	Commits         int64 // offsets stored since the start
	Appends         int64 // batches written to the offsets topic
	AppendFailures  int64 // of these, not known to be committed: the partition was loaded again
	Loads           int64 // partitions loaded
}

// counters are what Stats counts as it goes.
type counters struct{ rebalances, commits, appends, failures, loads atomic.Int64 }

// Stats returns the present counters. It is safe for concurrent use.
func (c *Coordinator) Stats() Stats {
	s := Stats{Rebalances: c.counters.rebalances.Load(), Commits: c.counters.commits.Load(), Appends: c.counters.appends.Load(),
		AppendFailures: c.counters.failures.Load(), Loads: c.counters.loads.Load()}
	if shards := c.shards.Load(); shards != nil {
		for _, sh := range *shards {
			sh.mu.Lock()
			s.Groups += len(sh.groups)
			for _, e := range sh.groups {
				s.Members += len(e.members)
			}
			sh.mu.Unlock()
		}
	}
	return s
}
